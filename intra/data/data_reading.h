// Digests of the data that a worker reads: of a sample at once, of every byte once all are read
// (docs/data.md).
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
#include <string>
#include <thread>
#include <vector>

#include "diloco/maths/digest.h"
#include "intra/base/mapped_file.h"
#include "intra/data/data.h"

namespace causeway::intra {

// SHA-256 of whole data files, kept in a file from one start to the next, so that a file is read
// once. What is kept of a file holds as long as its stamp does.
//
// The file is text: a line with its version; for each data file its digest, inode, size and times;
// and the SHA-256 of all that, so that damage shows.
class KeptDigests {
 public:
  // A file that is not there, damaged or of another version is as good as empty; the log says of
  // the latter two.
  explicit KeptDigests(std::filesystem::path file);

  std::optional<diloco::Digest> find(const FileStamp& stamp) const;
  // Not of a file that changed just before it was read: it may change again and have the same
  // stamp. `read_at_ns`: the clock when reading began, in nanoseconds since 1970.
  void add(const FileStamp& stamp, const diloco::Digest& digest, std::int64_t read_at_ns);
  // Throws std::system_error naming the file.
  void save() const;

 private:
  void parse(const std::string& text);

  std::filesystem::path file_;
  std::map<FileStamp, diloco::Digest> digests_;
};

class DataReading {
 public:
  // `common`: of data.validation_files; null: there are none. `directory`: where digests are kept;
  // empty: nowhere. Throws Errc::bad_data naming a file that cannot be read, data_changed one that
  // changes meanwhile.
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
