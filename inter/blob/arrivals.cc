#include "inter/blob/arrivals.h"

#include <algorithm>
#include <utility>

#include "inter/base/limits.h"

namespace causeway::inter {

void Arrivals::add(const BlobId& id, std::uint64_t life, std::uint64_t chunk,
                   const std::string& peer) {
  if (!blobs_.contains(id) && blobs_.size() >= kRememberedBlobsMax) blobs_.clear();
  Blob& blob = blobs_[id];
  if (blob.life != life) {
    blob.life = life;
    blob.sent.clear();
  }
  blob.sent.try_emplace(peer, chunk_count(id.size_bytes)).first->second.insert(chunk);
  blob.last = peer;
}

std::string Arrivals::last(const BlobId& id) const {
  const auto found = blobs_.find(id);
  return found == blobs_.end() ? "" : found->second.last;
}

// Who sent most has the least to send again.
std::string Arrivals::choose_keeper(const Blob& blob, const std::set<std::string>& present) {
  std::string keeper;
  std::uint64_t most = 0;
  for (const std::string& peer : blob.candidates) {
    const auto sent = blob.sent.find(peer);
    const std::uint64_t chunks = sent == blob.sent.end() ? 0 : sent->second.count();
    if (!present.contains(peer) || (!keeper.empty() && chunks <= most)) continue;
    keeper = peer;
    most = chunks;
  }
  return keeper;
}

Arrivals::Repair Arrivals::on_mismatch(const BlobId& id, std::span<const Sha256Hash> hashes,
                                       const std::set<std::string>& present) {
  const auto found = blobs_.find(id);
  const ChunkMap none(chunk_count(id.size_bytes));
  if (found == blobs_.end()) return {"", none};
  Blob& blob = found->second;
  const bool alone = blob.sent.size() == 1 && blob.sent.begin()->second.all();
  Repair repair{"", none};
  if (alone && blob.sent.begin()->first == blob.keeper) repair.wrong = blob.keeper;
  for (const auto& [peer, chunks] : blob.sent) {
    if (peer != repair.wrong && !(alone && blob.keeper.empty())) blob.candidates.insert(peer);
  }
  blob.candidates.erase(repair.wrong);
  repair.keeper = blob.keeper = choose_keeper(blob, present);
  blob.candidates.erase(blob.keeper);
  if (const auto kept = blob.sent.find(blob.keeper); kept != blob.sent.end())
    repair.stays = kept->second;
  for (auto& [peer, chunks] : blob.sent) {
    for (std::uint64_t chunk = 0; peer != repair.keeper && chunk < hashes.size(); ++chunk)
      if (chunks.has(chunk)) blob.doubts[chunk] = {peer, hashes[chunk]};
  }
  std::erase_if(blob.sent, [&](const auto& one) { return one.first != repair.keeper; });
  return repair;
}

std::map<std::string, std::uint64_t> Arrivals::on_right(const BlobId& id,
                                                        std::span<const Sha256Hash> hashes) {
  std::map<std::string, std::uint64_t> wrong;
  const auto found = blobs_.find(id);
  if (found == blobs_.end()) return wrong;
  for (const auto& [chunk, doubt] : found->second.doubts)
    if (chunk < hashes.size() && hashes[chunk] != doubt.hash) ++wrong[doubt.peer];
  blobs_.erase(found);
  return wrong;
}

}  // namespace causeway::inter
