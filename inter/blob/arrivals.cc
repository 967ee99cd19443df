#include "inter/blob/arrivals.h"

#include <tuple>

namespace causeway::inter {

void Arrivals::add(const BlobId& id, std::uint64_t life, std::uint64_t chunk,
                   const std::string& peer) {
  Blob& blob = blobs_[id];
  if (blob.life != life) blob.begins_anew ? blob.sent.clear() : void(blob = {});
  blob.life = life;
  blob.begins_anew = false;
  // It came before, and a disk did not take it.
  for (auto& [other, chunks] : blob.sent)
    if (chunks.has(chunk)) chunks.erase(chunk);
  blob.sent.try_emplace(peer, chunk_count(id.size_bytes)).first->second.insert(chunk);
  blob.senders.insert(peer);
  blob.last = peer;
}

std::string Arrivals::last(const BlobId& id) const {
  const auto found = blobs_.find(id);
  return found == blobs_.end() ? "" : found->second.last;
}

std::string Arrivals::keeper(const BlobId& id) const {
  const auto found = blobs_.find(id);
  return found == blobs_.end() ? "" : found->second.keeper;
}

void Arrivals::keep_only(const std::set<BlobId>& ids) {
  std::erase_if(blobs_, [&](const auto& known) { return !ids.contains(known.first); });
}

// Who was wrong least often, and then who sent most: it has the least to send again.
std::string Arrivals::choose_keeper(const Blob& blob, const std::set<std::string>& present) const {
  std::string keeper;
  std::tuple<std::uint64_t, std::uint64_t> least;
  for (const std::string& peer : blob.senders) {
    if (!present.contains(peer) || blob.asked.contains(peer)) continue;
    const auto sent = blob.sent.find(peer);
    const auto wrong = wrong_.find(peer);
    const std::uint64_t lacks =
        sent == blob.sent.end() ? ~std::uint64_t{0} : sent->second.size() - sent->second.count();
    const std::tuple rank{wrong == wrong_.end() ? 0 : wrong->second, lacks};
    if (!keeper.empty() && rank >= least) continue;
    keeper = peer;
    least = rank;
  }
  return keeper;
}

Arrivals::Repair Arrivals::on_mismatch(const BlobId& id, std::span<const Sha256Hash> hashes,
                                       const std::set<std::string>& present) {
  Repair repair{"", ChunkMap(chunk_count(id.size_bytes))};
  const auto found = blobs_.find(id);
  if (found == blobs_.end()) return repair;
  Blob& blob = found->second;
  std::string whole;  // who sent all of it
  for (const auto& [peer, chunks] : blob.sent)
    if (chunks.all()) whole = peer;
  if (!whole.empty() && blob.asked.empty()) {
    repair.alone = whole;
    blobs_.erase(found);
    return repair;
  }
  if (!whole.empty() && whole == blob.keeper) {
    repair.wrong = whole;
    ++wrong_[whole];
  }
  repair.keeper = blob.keeper = choose_keeper(blob, present);
  if (blob.keeper.empty()) {
    blobs_.erase(found);
    return repair;
  }
  blob.asked.insert(blob.keeper);
  if (const auto kept = blob.sent.find(blob.keeper); kept != blob.sent.end())
    repair.stays = kept->second;
  for (const auto& [peer, chunks] : blob.sent) {
    for (std::uint64_t chunk = 0; peer != blob.keeper && chunk < hashes.size(); ++chunk)
      if (chunks.has(chunk)) blob.doubts[chunk] = {peer, hashes[chunk]};
  }
  std::erase_if(blob.sent, [&](const auto& one) { return one.first != blob.keeper; });
  blob.begins_anew = repair.stays.none();
  return repair;
}

std::map<std::string, std::uint64_t> Arrivals::on_right(const BlobId& id,
                                                        std::span<const Sha256Hash> hashes) {
  std::map<std::string, std::uint64_t> wrong;
  const auto found = blobs_.find(id);
  if (found == blobs_.end()) return wrong;
  for (const auto& [chunk, doubt] : found->second.doubts)
    if (chunk < hashes.size() && hashes[chunk] != doubt.hash) ++wrong[doubt.peer];
  for (const auto& [peer, chunks] : wrong) wrong_[peer] += chunks;
  blobs_.erase(found);
  return wrong;
}

}  // namespace causeway::inter
