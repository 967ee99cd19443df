#include "diloco/round/summing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace causeway::diloco {

void Summing::take_told(Time now) {
  if (const Draft* own = leader_.draft()) {
    if (std::exchange(own_taken_, leader_.drafts_told()) != leader_.drafts_told()) take(*own, now);
    return;
  }
  const auto told =
      region_.agreement.leader() ? told_.find(*region_.agreement.leader()) : told_.end();
  if (told == told_.end() || !is_of_open_round(told->second)) return;
  take(told->second, now);
  told_.erase(told);
}

bool Summing::is_of_open_round(const Draft& draft) const {
  return draft.record.run_id == region_.history.run_id() &&
         draft.record.round == region_.history.version() &&
         draft.record.revision == region_.history.revision() && !draft.record.participants.empty();
}

void Summing::sum(Time now) {
  take_told(now);
  if (draft_ && draft_->record.round != region_.history.version()) draft_.reset();
  if (!draft_ || region_.options.witness) return;
  const std::vector<inter::BlobId>& listed = draft_->record.sums;
  if (!held_ && !listed.empty() && region_.spool.holds_all(listed)) {
    held_ = whole_of(listed).hash;
    tell_leader(now);
  }
  // What its program trains says how it is summed.
  if (!region_.worker.has_attached()) return;
  for (std::uint32_t shard = 0; shard < shard_count(); ++shard) {
    if (begun_.contains(shard) || !region_.shards.is_mine(shard)) continue;
    auto inputs = inputs_of(shard);
    if (!inputs) continue;
    begun_.insert(shard);
    region_.out.push(SumShard{draft_->record, shard, std::move(*inputs)});
  }
}

void Summing::take(const Draft& draft, Time now) {
  const CommitRecord& record = draft.record;
  const Digest digest = draft_digest(record);
  if (!draft_ || digest != digest_) {
    begun_.clear();
    sums_.clear();
  }
  if (!draft_ || draft_->record.sums != record.sums) held_.reset();
  draft_ = draft;
  digest_ = digest;
  std::set<std::uint32_t> given;
  std::map<std::uint32_t, std::string> further;
  for (const Draft::Duty& duty : draft.duties) {
    if (duty.region == region_.options.self) given.insert(duty.shard);
    further[duty.shard] = duty.region;
  }
  region_.shards.take_over(std::move(given), record.sums, std::move(further));
  tell_leader(now);
}

void Summing::tell_leader(Time now) {
  if (!draft_ || (sums_.empty() && !held_)) return;
  const ShardSums word{draft_->record.round, digest_, sums_, held_};
  if (leader_.leads()) return leader_.hear(region_.options.self, word, now);
  if (const auto leader = region_.agreement.leader()) region_.peers.send(*leader, word);
}

// All regions cut the model alike, or the draft would not list them together.
std::uint32_t Summing::shard_count() const {
  const Contribution* first =
      region_.contributions.find(key_of(draft_->record.participants.front()));
  return first == nullptr ? 0 : static_cast<std::uint32_t>(first->shards.size());
}

std::optional<std::vector<inter::BlobId>> Summing::inputs_of(std::uint32_t shard) const {
  std::vector<inter::BlobId> inputs;
  for (const Participant& one : draft_->record.participants) {
    const Contribution* made = region_.contributions.find(key_of(one));
    const bool here = made != nullptr && made->payload == one.payload &&
                      shard < made->shards.size() && region_.spool.holds(made->shards[shard]);
    if (!here) return std::nullopt;
    inputs.push_back(made->shards[shard]);
  }
  return inputs;
}

void Summing::on_summed(const Digest& draft, std::uint32_t shard, const inter::BlobId& sum,
                        Time now) {
  region_.spool.put(sum);
  region_.spool.leave_unclaimed_if_unnamed(sum);
  if (decided_ && decided_->draft == draft) compare(shard, sum);
  if (!draft_ || draft != digest_ || !sums_.try_emplace(shard, sum).second) return;
  push_around(shard, sum);
  tell_leader(now);
}

bool Summing::is_at(const Digest& draft) const {
  return draft_ && draft == digest_ && draft_->record.round == region_.history.version();
}

void Summing::on_failed(const Digest& draft, std::uint32_t shard) {
  if (draft_ && draft == digest_) begun_.erase(shard);
}

// Before the record says so: it is what the record will say, unless somebody lies.
void Summing::push_around(std::uint32_t shard, const inter::BlobId& sum) {
  const Summers& summers = region_.shards.summers();
  if (summers.first(shard) != region_.options.self) return;
  for (const std::string& peer : region_.peers.up()) {
    if (region_.takes_pushes(peer) && !summers.sums(peer, shard))
      region_.out.push(PushBlob{peer, sum});
  }
}

void Summing::check(const CommitRecord& record) {
  decided_.reset();
  if (!draft_ || record.sums.empty() || draft_digest(record) != digest_) return;
  decided_ = {record.round, digest_, record.sums};
  for (const auto& [shard, sum] : sums_) compare(shard, sum);
}

void Summing::compare(std::uint32_t shard, const inter::BlobId& sum) const {
  if (shard < decided_->sums.size() && decided_->sums[shard] == sum) return;
  region_.out.note(Note::Severity::error,
                   fmt::format("round {} takes another sum of shard {} than this region made: a "
                               "region lies, or computes something else",
                               decided_->round, shard));
}

// It is made again, if it is still of use.
void Summing::on_lost(const inter::BlobId& blob) {
  std::erase_if(sums_, [&](const auto& made) {
    if (made.second == blob) begun_.erase(made.first);
    return made.second == blob;
  });
  if (draft_ && std::ranges::count(draft_->record.sums, blob) > 0) held_.reset();
}

}  // namespace causeway::diloco
