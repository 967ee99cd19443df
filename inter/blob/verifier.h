// Hashes what arrives: each chunk from memory, as it comes and in any order, in threads of its own,
// so that no link waits for it. On few cores, where such a thread would take the link's own core,
// the link does it while the chunk is in its cache. The disk begins with what is there as well, so
// that little is left when the last chunk comes. Internal to inter.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/thread_pool.hpp>

#include "inter/base/file.h"
#include "inter/base/hash.h"
#include "inter/blob/spool.h"

namespace causeway::inter {

class Verifier {
 public:
  // Told when a blob is complete in the spool, or why not: Errc::hash_mismatch (it stays partial)
  // or a storage failure. `chunks`: their hashes, if they were compared. On the executor.
  using Verdict =
      std::function<void(const BlobId& id, const std::optional<std::system_error>& failure,
                         std::span<const Sha256Hash> chunks)>;
  // Told when a complete blob was found not to be what it was any more; it was removed.
  using Lost = std::function<void(const BlobId& id)>;

  // `hashing`: where to hash instead of in threads of its own, so that a simulation can.
  Verifier(asio::any_io_executor executor, Spool& spool, Verdict verdict,
           asio::any_io_executor hashing = {}, Lost lost = {});
  ~Verifier();

  // A chunk that the spool has just stored: from a copy of `bytes`.
  void add(const BlobId& id, std::uint64_t chunk, std::span<const std::byte> bytes);
  // Completes a blob of which all is here and noted, unless that is under way.
  void finish(const BlobId& id);
  // Hashes a complete blob once more, as a disk can change what it keeps. Each at most every
  // kRecheckInterval, whoever asks.
  void recheck(const BlobId& id);
  void stop();  // waits for what is under way; no verdict comes any more

  std::uint64_t hashed_bytes() const { return hashed_bytes_; }
  std::chrono::nanoseconds cpu_time() const { return cpu_time_; }  // of hashing

 private:
  using Buffer = std::unique_ptr<PageBuffer>;
  struct Chunk;
  struct Checked;
  Buffer buffer();
  void begin_sync(const BlobId& id);
  void on_hashed(const Chunk& chunk);
  void on_checked(const Checked& checked);
  void on_rechecked(const BlobId& id, std::uint64_t life, const std::optional<std::string>& damage);

  asio::any_io_executor executor_;
  Spool& spool_;
  Verdict verdict_;
  Lost lost_;
  std::vector<Buffer> buffers_;                // that nobody has
  std::size_t under_way_ = 0;                  // chunks in the threads' queue
  std::map<BlobId, std::uint64_t> finishing_;  // with their life
  std::map<BlobId, std::chrono::steady_clock::time_point> rechecked_;
  std::uint64_t hashed_bytes_ = 0;
  std::chrono::nanoseconds cpu_time_{0};
  std::shared_ptr<Verifier*> alive_;  // what a thread sends back finds nobody after stop()
  std::optional<asio::thread_pool> threads_;
  asio::any_io_executor hashing_;
  const bool in_place_;
};

}  // namespace causeway::inter
