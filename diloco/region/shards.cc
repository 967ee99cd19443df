#include "diloco/region/shards.h"

#include <algorithm>
#include <utility>

namespace causeway::diloco {

bool is_sharded_after(const CommitRecord* last, const ProtocolOptions& options) {
  if (last != nullptr) return last->next_sharded;
  // Automatically never at first: who takes part is only seen by then.
  return options.exchange == ExchangeKind::sharded;
}

Summers::Summers(const CommitRecord* last, const Membership& membership) {
  std::set<std::string> regions;
  if (last != nullptr) {
    for (const Participant& one : last->participants)
      if (one.round == last->round && one.part == 0) regions.insert(one.region);
  }
  if (regions.size() < kSummersPerShard) regions = membership.regions();
  regions_.assign(regions.begin(), regions.end());
  for (const std::string& region : membership.regions())
    if (!regions.contains(region)) others_.push_back(region);
}

std::vector<std::string> Summers::of(std::uint32_t shard) const {
  std::vector<std::string> summers;
  for (std::size_t i = 0; i < std::min(kSummersPerShard, regions_.size()); ++i)
    summers.push_back(further(shard, i));
  return summers;
}

std::string Summers::first(std::uint32_t shard) const {
  return regions_.empty() ? "" : further(shard, 0);
}

const std::string& Summers::further(std::uint32_t shard, std::size_t n) const {
  if (n >= regions_.size()) return others_[n - regions_.size()];
  return regions_[(shard + n) % regions_.size()];
}

// Asked for every shard of every contribution at every event.
bool Summers::sums(const std::string& region, std::uint32_t shard) const {
  const auto place = std::ranges::lower_bound(regions_, region);
  if (place == regions_.end() || *place != region) return false;
  const auto index = static_cast<std::size_t>(place - regions_.begin());
  return (index + regions_.size() - shard % regions_.size()) % regions_.size() < kSummersPerShard;
}

bool Summers::includes(const std::string& region) const {
  return std::ranges::binary_search(regions_, region);
}

std::uint64_t Summers::bytes_for(const std::string& region,
                                 const Contribution& contribution) const {
  if (contribution.region == region || contribution.shards.empty())
    return contribution.payload.size_bytes;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < contribution.shards.size(); ++i)
    bytes += sums(region, i) ? contribution.shards[i].size_bytes : 0;
  return bytes;
}

void ShardDuties::take_over(std::set<std::uint32_t> shards, std::vector<inter::BlobId> sums,
                            std::map<std::uint32_t, std::string> further) {
  taken_in_ = history_.version();
  taken_ = std::move(shards);
  sums_ = std::move(sums);
  further_ = std::move(further);
}

std::string ShardDuties::maker_of_sum(std::uint32_t shard) const {
  const auto asked = further_.find(shard);
  const bool known = taken_in_ == history_.version() && asked != further_.end();
  return known ? asked->second : summers().first(shard);
}

std::vector<inter::BlobId> ShardDuties::sums() const {
  return taken_in_ == history_.version() ? sums_ : std::vector<inter::BlobId>{};
}

bool ShardDuties::sharded() const {
  return is_sharded_after(last(), options_);
}

const ShardDuties::Known& ShardDuties::known() const {
  if (std::exchange(is_known_, true) && known_) return *known_;
  const Membership& members = agreement_.members();
  const bool same = known_ && known_->version == history_.version() &&
                    known_->revision == history_.revision() && known_->members == members;
  if (same) return *known_;
  known_ = {.version = history_.version(),
            .revision = history_.revision(),
            .members = members,
            .summers = Summers(last(), members)};
  static_assert(kShardsMax <= 64);
  for (std::uint32_t shard = 0; shard < kShardsMax; ++shard)
    known_->own |= std::uint64_t{known_->summers.sums(options_.self, shard)} << shard;
  return *known_;
}

bool ShardDuties::taken_over(std::uint32_t shard) const {
  return taken_in_ == history_.version() && taken_.contains(shard);
}

bool ShardDuties::is_mine(std::uint32_t shard) const {
  return taken_over(shard) || (known().own >> shard & 1) != 0;
}

// Of a later round it is not known yet who sums what.
std::vector<inter::BlobId> ShardDuties::usual(const Contribution& contribution) const {
  if (contribution.region == options_.self || contribution.shards.empty())
    return blobs_of(contribution);
  std::vector<inter::BlobId> due;
  if (contribution.sits_out || contribution.round != history_.version()) return due;
  const std::uint64_t own = known().own;
  for (std::size_t i = 0; i < contribution.shards.size(); ++i)
    if ((own >> i & 1) != 0) due.push_back(contribution.shards[i]);
  return due;
}

std::vector<inter::BlobId> ShardDuties::due(const Contribution& contribution) const {
  std::vector<inter::BlobId> due = usual(contribution);
  if (contribution.region == options_.self || contribution.round != history_.version()) return due;
  for (std::uint32_t i = 0; i < contribution.shards.size(); ++i) {
    const bool counted = std::ranges::count(due, contribution.shards[i]) > 0;
    if (taken_over(i) && !counted && !contribution.sits_out) due.push_back(contribution.shards[i]);
  }
  return due;
}

}  // namespace causeway::diloco
