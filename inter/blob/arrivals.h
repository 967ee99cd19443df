// Who sent which chunks of the blobs that arrive, so that one that sends wrong bytes spoils no more
// than what it sent, and is found out. Pure. Internal to inter.
//
// A blob is known to be wrong when all of it is here. Of several senders one, the keeper, then
// sends what the others sent. If the blob is right after that, chunks that came out otherwise say
// who was wrong; if it is not, though the keeper sent all of it, the keeper was. Nobody is keeper
// twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "inter/base/hash.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::inter {

class Arrivals {
 public:
  // A chunk was stored. `life`: of the blob in the spool. What is known of an earlier one is gone,
  // unless a repair began this one.
  void add(const BlobId& id, std::uint64_t life, std::uint64_t chunk, const std::string& peer);

  // What to do with a blob whose hash is wrong. Chunks that do not stay are to come again.
  struct Repair {
    std::string keeper;      // who sends them; empty: nobody that has not been asked
    ChunkMap stays;          // the keeper sent these
    std::string alone = {};  // sent all of it, and was never asked to repair it
    std::string wrong = {};  // sent all of it again, alone
  };
  // `hashes`: of the chunks as they are. `present`: peers that can send.
  Repair on_mismatch(const BlobId& id, std::span<const Sha256Hash> hashes,
                     const std::set<std::string>& present);
  // Its hash is right: by peer, how many chunks it had sent that were not.
  std::map<std::string, std::uint64_t> on_right(const BlobId& id,
                                                std::span<const Sha256Hash> hashes);
  std::string keeper(const BlobId& id) const;  // empty: it is not being repaired
  std::string last(const BlobId& id) const;    // who sent the chunk that came last
  std::size_t size() const { return blobs_.size(); }
  void keep_only(const std::set<BlobId>& ids);

 private:
  struct Doubt {
    std::string peer;
    Sha256Hash hash;  // of what it sent
  };
  struct Blob {
    std::uint64_t life = 0;
    bool begins_anew = false;  // by a repair
    std::string last, keeper;
    std::map<std::string, ChunkMap> sent;   // by peer
    std::map<std::uint64_t, Doubt> doubts;  // chunks that a keeper sends again
    std::set<std::string> senders, asked;   // of any chunk so far; to be keeper
  };
  std::string choose_keeper(const Blob& blob, const std::set<std::string>& present) const;

  std::map<BlobId, Blob> blobs_;
  std::map<std::string, std::uint64_t> wrong_;  // chunks, by peer
};

}  // namespace causeway::inter
