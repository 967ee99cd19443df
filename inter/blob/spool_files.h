// How a spool names its files, and reads them.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "inter/base/file.h"
#include "inter/base/hash.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::inter {

// A blob of which chunks are here: its bytes in a file and, beside it, a map with the hash of each
// chunk, written after the chunk, so that whatever a crash tore is found, and the hash of the whole
// is known from the map once all are there. docs/file-formats.md has the files.
class PartialBlob {
 public:
  struct Paths {
    std::filesystem::path content, map;
  };

  // With an empty map; the file for the content, whatever it holds, is there already.
  static PartialBlob begin(const BlobId& id, const Paths& paths);
  // What an earlier process left; nothing if no chunk is intact.
  static std::optional<PartialBlob> resume(const BlobId& id, const Paths& paths);

  const ChunkMap& held() const { return held_; }
  std::uint64_t received_bytes() const { return received_bytes_; }

  // A chunk that is not here. Its hash is due to note().
  void write(std::uint64_t chunk, std::span<const std::byte> bytes);
  void note(std::uint64_t chunk, const Sha256Hash& hash);  // tree_hash() of one that was written
  void forget(std::uint64_t chunk);                        // one that was written and not noted
  void drop(std::uint64_t chunk);                          // one that was noted, and is wrong
  bool all_noted() const { return noted_ == held_.size(); }

  // Its files stay open from one write to the next, until this.
  bool has_open_files() const { return files_ != nullptr; }
  void close_files() { files_.reset(); }

 private:
  struct Files;
  Files& files();
  PartialBlob(const BlobId& id, const Paths& paths, ChunkMap held);

  BlobId id_;
  Paths paths_;
  ChunkMap held_;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t noted_ = 0;  // chunks
  std::shared_ptr<Files> files_;
};

// Of a complete blob. Also for who looks at another process's spool.
std::filesystem::path blob_path(const std::filesystem::path& spool_directory, const BlobId& id);
// Of one that is kept for good, in the directory `archive` beside the spool.
std::filesystem::path archived_blob_path(const std::filesystem::path& spool_directory,
                                         const BlobId& id);
PartialBlob::Paths partial_paths(const std::filesystem::path& spool_directory, const BlobId& id);

std::filesystem::path draft_path(const std::filesystem::path& spool_directory,
                                 std::uint64_t number);

// The complete blob, or the partial one, of which a file of this name is; nothing for other names.
std::optional<BlobId> named_blob(std::string_view file_name);
std::optional<BlobId> named_partial(std::string_view file_name);
bool is_draft(std::string_view file_name);

// Fills `bytes`, or throws naming the file.
void read_exactly(const std::filesystem::path& path, const File& file, std::uint64_t offset,
                  std::span<std::byte> bytes);

// The id of a content.
BlobId identify(std::span<const std::byte> content);
BlobId identify(const std::filesystem::path& file);
// Of the chunks of a blob that have all been noted. The hash of the blob is tree_root() of them.
std::vector<Sha256Hash> noted_hashes(const std::filesystem::path& map, const BlobId& id);

Sha256Hash hash_file(const std::filesystem::path& path, std::uint64_t size);  // plain SHA-256

// Files of blobs that were removed, kept in order to be written anew: a round's payloads are about
// as large as the last one's, and pages and disk blocks that are there already cost less than new
// ones. What a spare holds is never read.
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
