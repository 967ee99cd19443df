// Hashes what arrives, in a thread of its own, so that no link waits for it: a blob's bytes are
// hashed as far as they are here without a gap, and what is left when the last chunk comes is
// little. Internal to inter.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include <asio/any_io_executor.hpp>
#include <asio/thread_pool.hpp>

#include "inter/blob/spool.h"

namespace causeway::inter {

class Verifier {
 public:
  // Told when a blob is complete in the spool, or why not: Errc::hash_mismatch (it was deleted) or
  // a storage failure. On the executor.
  using Verdict =
      std::function<void(const BlobId& id, const std::optional<std::system_error>& failure)>;
  // Told when a complete blob was found not to be what it was any more; it was removed.
  using Lost = std::function<void(const BlobId& id)>;

  // `hashing`: where to hash instead of in a thread of its own, so that a simulation can.
  Verifier(asio::any_io_executor executor, Spool& spool, Verdict verdict,
           asio::any_io_executor hashing = {}, Lost lost = {});
  ~Verifier();

  void advance(const BlobId& id);  // after chunks of it were stored
  // Hashes a complete blob once more, as a disk can change what it keeps. Each at most every
  // kRecheckInterval, whoever asks.
  void recheck(const BlobId& id);
  void stop();  // waits for the slice under way; no verdict comes any more

  std::uint64_t hashed_bytes() const { return hashed_bytes_; }
  std::chrono::nanoseconds cpu_time() const { return cpu_time_; }  // of the thread

 private:
  struct Job;
  void start_slice(const std::shared_ptr<Job>& job, std::uint64_t end);
  void on_slice(const std::shared_ptr<Job>& job);
  void conclude(const std::shared_ptr<Job>& job);
  void on_rechecked(const BlobId& id, std::uint64_t life, const std::optional<std::string>& damage);

  asio::any_io_executor executor_;
  Spool& spool_;
  Verdict verdict_;
  Lost lost_;
  std::map<BlobId, std::shared_ptr<Job>> jobs_;
  std::map<BlobId, std::chrono::steady_clock::time_point> rechecked_;
  std::uint64_t hashed_bytes_ = 0;
  std::chrono::nanoseconds cpu_time_{0};
  std::shared_ptr<Verifier*> alive_;  // what the thread sends back finds nobody after stop()
  std::optional<asio::thread_pool> thread_;
  asio::any_io_executor hashing_;
};

}  // namespace causeway::inter
