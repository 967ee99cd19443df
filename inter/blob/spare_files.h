// Files of blobs that were removed, kept in order to be written anew: a round's payloads are about
// as large as the last one's, and pages and disk blocks that are there already cost less than new
// ones. What a spare holds is never read. Internal to inter.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>

namespace causeway::inter {

class SpareFiles {
 public:
  // Deletes spares that an earlier process left in `directory`. It deletes its own at the end.
  explicit SpareFiles(std::filesystem::path directory);
  SpareFiles(const SpareFiles&) = delete;
  SpareFiles& operator=(const SpareFiles&) = delete;
  ~SpareFiles() { clear(); }

  // Keeps the file, or deletes it: when it is small, or when somebody may still have it open or
  // linked, who must not see it change (a worker reads payloads where they lie).
  void keep(const std::filesystem::path& file);
  // The file `path` of `size_bytes`, made from a spare if there is one of about this size. What it
  // holds is to be overwritten.
  void take(const std::filesystem::path& path, std::uint64_t size_bytes);

  std::uint64_t bytes() const;
  // Deletes the oldest until they take at most this.
  void shrink_to(std::uint64_t bytes_max);
  void clear() { shrink_to(0); }

 private:
  struct Spare {
    std::filesystem::path path;
    std::uint64_t size_bytes = 0;
    std::uint64_t number = 0;
  };
  void drop_oldest();

  std::filesystem::path directory_;
  std::uint64_t kept_ = 0;    // so far
  std::deque<Spare> spares_;  // the oldest first
};

}  // namespace causeway::inter
