// The spool: blobs on disk in one directory, partial ones included, so that a restart keeps what
// had arrived. docs/file-formats.md has the files.
//
// Chunks of a partial blob may come in any order and from several peers. What a crash tore is
// fetched again, the rest stays. A blob counts with its whole size against the capacity from its
// first chunk on, or from when it was asked for, so that what was begun can be finished. One
// thread. A storage failure throws std::system_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "inter/blob/spool_files.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::inter {

// Why a file is not that blob, as a sentence about it without its subject; none: it is. For any
// thread. Throws std::system_error where that cannot be known.
std::optional<std::string> damage_of(const std::filesystem::path& file, const BlobId& id);

class Spool {
 public:
  // Opens or creates the directory; blobs found there are kept (complete ones are re-hashed, bad
  // ones deleted). Throws Errc::other_version for those of a program that named them otherwise.
  Spool(std::filesystem::path directory, std::uint64_t capacity_bytes);

  // Content that is written here rather than received: a file of its size, within the capacity, for
  // any thread to fill and sync. Gone with this object unless finish() made it a blob.
  class Draft {
   public:
    Draft(std::filesystem::path path, std::uint64_t size_bytes,
          std::shared_ptr<std::uint64_t> drafted_bytes);
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft();
    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size_bytes() const { return size_bytes_; }

   private:
    std::filesystem::path path_;
    std::uint64_t size_bytes_;
    std::shared_ptr<std::uint64_t> drafted_bytes_;  // of all
  };
  // Errc::spool_full over capacity.
  std::unique_ptr<Draft> draft(std::uint64_t size_bytes);
  // Its content, which is that of `id`, was written and synced.
  void finish(const Draft& draft, const BlobId& id);
  // All of that at once.
  BlobId put(std::span<const std::byte> bytes);
  // Deletes the files that are kept to be written anew; false if there are none.
  bool release_spares();
  std::uint64_t spare_bytes() const { return spares_.bytes(); }
  bool has(const BlobId& id) const;  // complete and hash-checked
  // Or it is in the archive beside the spool, of which whoever gets it checks the hash.
  bool can_send(const BlobId& id) const;
  // In whichever chunks; the whole size when all are here, though perhaps not yet checked.
  std::uint64_t received_bytes(const BlobId& id) const;

  // The chunks that are here.
  ChunkMap held(const BlobId& id) const;
  // Keeps the room for it, from here on. Throws Errc::spool_full over capacity.
  void expect(const BlobId& id) { begin(id); }
  std::set<BlobId> begun() const;  // of which not all is here, or not checked
  // Stores a chunk, of which note() must then be told the hash; false: it is here already. Throws
  // Errc::spool_full over capacity.
  bool store(const BlobId& id, std::uint64_t chunk, std::span<const std::byte> bytes);
  // tree_hash() of a chunk that was stored in this life of the blob. True once all chunks are here
  // and noted: then check() is due. No effect if that life is over. If it cannot be stored, neither
  // is the chunk.
  bool note(const BlobId& id, std::uint64_t life, std::uint64_t chunk, const Sha256Hash& hash);
  bool all_noted(const BlobId& id) const;  // of a partial blob
  // Both, for chunks from number `first` on; `bytes` are whole chunks. Whoever cannot wait for
  // hashing has a Verifier.
  bool write(const BlobId& id, std::uint64_t first, std::span<const std::byte> bytes);
  // Completes a blob of which all chunks are here and noted. If the hash is wrong, deletes it and
  // throws Errc::hash_mismatch. Syncs the file: the Verifier does it in another thread.
  void check(const BlobId& id);
  // Of a partial blob of which all is noted: these chunks are wrong, and to come again.
  void drop(const BlobId& id, const ChunkMap& chunks);

  // Up to `size` bytes from `offset` of a complete blob, or one that can be sent.
  std::vector<std::byte> read(const BlobId& id, std::uint64_t offset, std::size_t size) const;
  void read(const BlobId& id, std::uint64_t offset, std::span<std::byte> bytes) const;  // all of it
  std::filesystem::path path(const BlobId& id) const;  // of a complete blob
  void remove(const BlobId& id);                       // no error if absent
  std::uint64_t life(const BlobId& id) const;          // of a blob that is here, as in Partial
  // A complete blob is not what it was; `damage` says so, and the log.
  void remove_damaged(const BlobId& id, const std::string& damage);
  std::vector<BlobId> complete() const;
  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t stored_bytes() const;  // on disk, partial blobs with what they have
  // For another blob, beside the full sizes of all that are or have begun.
  std::uint64_t free_bytes() const;

  // The files of a partial blob, for whoever checks it.
  struct Partial {
    std::filesystem::path path, map;
    std::uint64_t life = 0;  // another one when the blob was removed and begun anew
  };
  std::optional<Partial> partial(const BlobId& id) const;
  // check(), by somebody who has synced this life of the file and knows the hash that its chunks
  // have together. If that is wrong, it stays, for drop() or remove(). No effect if that life is
  // over.
  void finish_checked(const BlobId& id, std::uint64_t life, const Sha256Hash& hash);

 private:
  struct Entry {
    std::uint64_t life = 0;
    std::optional<PartialBlob> partial;  // nothing: the blob is complete
  };
  const Entry* find(const BlobId& id) const;
  PartialBlob* find_partial(const BlobId& id, std::uint64_t life);
  void adopt(const std::filesystem::path& file);
  void adopt_complete(const BlobId& id);
  void adopt_partial(const BlobId& id);
  PartialBlob& begin(const BlobId& id);
  void remove_partial(const BlobId& id);
  void create_partial(const BlobId& id);
  void reserve(std::uint64_t size_bytes) const;
  template <typename Write>
  void with_room(const Write& write);
  void limit_open_files();
  void publish(const std::filesystem::path& content, const BlobId& id);

  std::filesystem::path directory_;
  std::uint64_t capacity_bytes_;
  std::uint64_t lives_ = 0;
  std::uint64_t drafts_ = 0;  // so far
  std::shared_ptr<std::uint64_t> drafted_bytes_ = std::make_shared<std::uint64_t>(0);
  std::map<BlobId, Entry> entries_;
  SpareFiles spares_;  // beside the entries, within the capacity
};

}  // namespace causeway::inter
