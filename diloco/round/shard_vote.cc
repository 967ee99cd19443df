#include "diloco/round/shard_vote.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace causeway::diloco {
namespace {

// Of sums that nobody gets any further with.
constexpr Time kServedIn = std::chrono::minutes{5};

}  // namespace

ShardVote::ShardVote(CommitRecord record, std::uint32_t shards, Summers summers, Time patience,
                     Time now, DoubtedSummers doubted)
    : draft_{.record = std::move(record)},
      digest_(draft_digest(draft_.record)),
      shards_(shards),
      summers_(std::move(summers)),
      doubted_(std::move(doubted)),
      patience_(patience),
      moved_at_(now) {
  for (Shard& shard : shards_) shard.summers = usual_summers();
}

std::size_t ShardVote::usual_summers() const {
  return std::min(kSummersPerShard, summers_.usual_count());
}

void ShardVote::hear(const std::string& region, const ShardSums& sums, Time now) {
  if (sums.draft != digest_) return;
  for (const auto& [shard, blob] : sums.sums) {
    const bool asked = shard < shards_.size() && is_silent(shard, region);
    if (!asked || blob.size_bytes == 0) continue;
    shards_[shard].words[region] = blob;
    moved_at_ = now;
  }
  const bool holds = settled() && sums.held == whole_of(draft_.record.sums).hash;
  if (holds && holders_.insert(region).second) moved_at_ = now;
}

void ShardVote::note_progress(const std::string& region, Time now) {
  if (settled() && !unconfirmed().contains(region)) moved_at_ = now;
}

// One that was asked and has said nothing so far.
bool ShardVote::is_silent(std::uint32_t shard, const std::string& region) const {
  if (doubted_.ignored.contains(region)) return false;
  for (std::size_t i = 0; i < shards_[shard].summers; ++i)
    if (summers_.further(shard, i) == region) return !shards_[shard].words.contains(region);
  return false;
}

std::set<std::string> ShardVote::silent(std::uint32_t shard) const {
  std::set<std::string> regions;
  for (std::size_t i = 0; i < shards_[shard].summers; ++i) {
    const std::string& region = summers_.further(shard, i);
    if (is_silent(shard, region)) regions.insert(region);
  }
  return regions;
}

std::size_t ShardVote::awaited(std::uint32_t shard, const std::set<std::string>& up) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      silent(shard), [&](const std::string& region) { return up.contains(region); }));
}

// The one that most say; of a tie of all that can be asked, the one with the lower hash.
std::optional<inter::BlobId> ShardVote::winner(std::uint32_t shard, const std::set<std::string>& up,
                                               Time now) const {
  const auto& words = shards_[shard].words;
  std::map<inter::BlobId, std::size_t> votes;
  for (const auto& [region, blob] : words) ++votes[blob];
  if (votes.empty()) return std::nullopt;
  const auto best =
      std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  if (best->second > 1 && 2 * best->second > words.size()) return best->first;
  const bool impatient = now >= moved_at_ + patience_;
  const bool others_asked = shards_[shard].summers > kSummersPerShard;
  const bool alone = votes.size() == 1 && others_asked && impatient;
  const bool all_said = was_given_to_all(shard) && (awaited(shard, up) == 0 || impatient);
  return alone || all_said ? std::optional(best->first) : std::nullopt;
}

bool ShardVote::was_given_to_all(std::uint32_t shard) const {
  return shards_[shard].summers == summers_.count();
}

// One that was late before is not, once another region's sum tells that the shard can be summed,
// until one more region was asked.
bool ShardVote::is_waited_for(std::uint32_t shard, const std::string& region) const {
  const bool first_in_its_place = shards_[shard].summers == usual_summers();
  return !doubted_.late.contains(region) || shards_[shard].words.empty() || !first_in_its_place;
}

bool ShardVote::look(const std::set<std::string>& up, Time now) {
  const bool impatient = now >= moved_at_ + patience_;
  bool changed = false;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    if (was_given_to_all(i) || winner(i, up, now)) continue;
    std::set<std::string> silent = this->silent(i);
    std::erase_if(silent, [&](const std::string& region) { return !up.contains(region); });
    const bool waits = std::ranges::any_of(
        silent, [&](const std::string& region) { return is_waited_for(i, region); });
    if (waits && !impatient) continue;
    if (impatient && !shard.words.empty()) late_.merge(silent);
    draft_.duties.push_back({i, summers_.further(i, shard.summers++)});
    changed = true;
  }
  if (!changed) return false;
  // Whoever is asked in haste takes part in what made the others slow.
  if (impatient) patience_ *= 2;
  moved_at_ = now;
  return true;
}

// Not every region is waited for: one that withholds what it made would hold up all of them.
bool ShardVote::leads_nowhere(Time now) const {
  if (settled()) return now >= moved_at_ + kServedIn;
  if (now < moved_at_ + patience_) return false;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const bool others_asked = was_given_to_all(i) || shards_[i].summers > kSummersPerShard;
    if (shards_[i].words.empty() && others_asked) return true;
  }
  return false;
}

std::set<std::string> ShardVote::unconfirmed() const {
  std::set<std::string> regions;
  for (std::uint32_t i = 0; settled() && i < shards_.size(); ++i) {
    std::vector<std::string> sayers;
    for (const auto& [region, blob] : shards_[i].words)
      if (blob == draft_.record.sums[i]) sayers.push_back(region);
    if (sayers.size() == 1) regions.insert(sayers.front());
  }
  return regions;
}

std::optional<Time> ShardVote::deadline() const {
  return moved_at_ + (settled() ? kServedIn : patience_);
}

bool ShardVote::settle(const std::set<std::string>& up, Time now) {
  std::vector<inter::BlobId> sums;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const auto sum = winner(i, up, now);
    if (!sum) return false;
    sums.push_back(*sum);
  }
  draft_.record.sums = std::move(sums);
  return true;
}

bool ShardVote::obtainable(const std::set<std::string>& up) const {
  const auto is_up = [&up](const std::string& region) { return up.contains(region); };
  if (std::ranges::any_of(holders_, is_up)) return true;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    const bool made = std::ranges::any_of(shards_[i].words, [&](const auto& word) {
      return word.second == draft_.record.sums[i] && is_up(word.first);
    });
    if (!made) return false;
  }
  return true;
}

std::string ShardVote::waiting_for() const {
  if (settled())
    return fmt::format("other regions to get the sums of round {} ({} have them)",
                       draft_.record.round, holders_.size());
  std::set<std::string> silent;
  std::size_t shards = 0;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    shards += shards_[i].words.empty() ? 1 : 0;
    silent.merge(this->silent(i));
  }
  return fmt::format("the sums of {} of {} shards of round {} (missing from {})", shards,
                     shards_.size(), draft_.record.round, fmt::join(silent, ", "));
}

}  // namespace causeway::diloco
