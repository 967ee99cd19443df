// SHA-256 of whole data files, kept in a file from one start to the next, so that a file is read
// once. What is kept of a file holds as long as its stamp does.
//
// The file is text: a line with its version; for each data file its digest, inode, size and times;
// and the SHA-256 of all that, so that damage shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "diloco/maths/digest.h"
#include "intra/base/mapped_file.h"

namespace causeway::intra {

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

}  // namespace causeway::intra
