// Digests of the data that a worker reads: of a sample at once, of every byte once all are read
// (docs/rounds.md, "Whether it is the same data").
//
// A file is read once; its digest is kept in the region's directory. What has no digest yet is read
// before anything else, if it is little. Otherwise a thread of its own reads it, for as long as
// that takes, and steps go on meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "diloco/maths/digest.h"
#include "intra/data/data.h"
#include "intra/data/kept_digests.h"

namespace causeway::intra {

class DataReading {
 public:
  // `common`: of data.validation_files; null: there are none. `directory`: where digests are kept;
  // empty: nowhere. Throws Errc::bad_data naming a file that cannot be read, or changes meanwhile.
  DataReading(const DataOptions& options, const Dataset& own, const Dataset* common,
              const std::filesystem::path& directory);
  ~DataReading();  // gives up what is under way
  DataReading(const DataReading&) = delete;
  DataReading& operator=(const DataReading&) = delete;

  diloco::DataDigests digests() const;  // now
  // Of files that had no digest when this began; more than DataOptions::digest_at_once_bytes are
  // read in the thread.
  std::uint64_t unread_bytes() const { return unread_bytes_; }

 private:
  // What is hashed together: the training data, and that for validation.
  struct Set {
    std::vector<DataFile> files;
    diloco::Digest sample{};
  };
  void read_all(const std::stop_token& stop);
  void read_in_thread(const std::stop_token& stop);
  std::optional<diloco::Digest> whole(const Set& set) const;
  std::optional<diloco::DataDigest> digest_of(std::size_t first_set) const;

  bool per_region_;
  std::vector<Set> sets_;
  KeptDigests kept_;
  bool keeps_;
  std::uint64_t unread_bytes_ = 0;
  mutable std::mutex mutex_;
  std::map<FileStamp, diloco::Digest> read_;  // under the mutex
  std::jthread thread_;
};

}  // namespace causeway::intra
