// Who sent which chunks of the blobs that arrive, so that one that sends wrong bytes spoils no more
// than what it sent, and is found out. Pure. Internal to inter.
//
// A blob is known to be wrong when all of it is here. Of several senders one, the keeper, then
// sends what the others sent. If the blob is right after that, chunks that came out otherwise say
// who was wrong; if not, the keeper was.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "inter/base/hash.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::inter {

class Arrivals {
 public:
  // A chunk was stored. `life`: of the blob in the spool; what is known of an earlier one is gone.
  void add(const BlobId& id, std::uint64_t life, std::uint64_t chunk, const std::string& peer);

  // What to do with a blob whose hash is wrong.
  struct Repair {
    std::string keeper;      // sends the rest; empty: one peer alone sent all of it
    ChunkMap stays;          // the keeper sent these
    std::string wrong = {};  // its bytes were wrong for certain
  };
  // `hashes`: of the chunks as they are. `present`: peers that can send.
  Repair on_mismatch(const BlobId& id, std::span<const Sha256Hash> hashes,
                     const std::set<std::string>& present);
  // Its hash is right: by peer, how many chunks it had sent that were not.
  std::map<std::string, std::uint64_t> on_right(const BlobId& id,
                                                std::span<const Sha256Hash> hashes);
  void forget(const BlobId& id) { blobs_.erase(id); }
  // Whoever sent the chunk that came last, of those that are known.
  std::string last(const BlobId& id) const;

 private:
  struct Doubt {
    std::string peer;
    Sha256Hash hash;  // of what it sent
  };
  struct Blob {
    std::uint64_t life = 0;
    std::string last;
    std::map<std::string, ChunkMap> sent;   // by peer
    std::map<std::uint64_t, Doubt> doubts;  // chunks that a keeper sends again
    std::set<std::string> candidates;       // of which one has not been the keeper yet
    std::string keeper;
  };
  static std::string choose_keeper(const Blob& blob, const std::set<std::string>& present);

  std::map<BlobId, Blob> blobs_;
};

}  // namespace causeway::inter
