#include "tests/diloco/cluster/history.h"

#include <algorithm>

#include "diloco/log/messages.h"
#include "diloco/log/withdraw.h"

namespace causeway::diloco::testing {

std::string serialize(const LogEntry& entry) {
  return diloco::serialize(Message{RaftMessage{"", AppendEntries{.entries = {entry}}}});
}

void History::made(const Contribution& contribution) {
  made_[contribution.payload] = {contribution.region, contribution.data_begin,
                                 contribution.data_cursor, contribution.round};
  for (const inter::BlobId& shard : contribution.shards)
    made_[shard] = {contribution.region, 0, 0, contribution.round};
}

void History::summed(const inter::BlobId& sum, Round round) {
  made_[sum] = {"all regions", 0, 0, round};
}

std::string History::describe(const inter::BlobId& payload) const {
  const Samples& made = made_.at(payload);
  return "what " + made.region + " made in round " + std::to_string(made.round);
}

bool History::needs(const inter::BlobId& payload, Round from, Round version) const {
  const auto listed = listed_in_.find(payload);
  if (listed != listed_in_.end()) return listed->second >= from;
  // Its contributor may have replaced it, and a record still to come list it all the same.
  constexpr Round kReplaced = 3;
  return version == 0 ||
         made_.at(payload).round + kReplaced >= records_[version - 1].expired_before;
}

void History::committed(const std::string& region, Index index, const LogEntry& entry,
                        const Evidence& evidence) {
  const std::string bytes = serialize(entry);
  if (index <= log_.size()) {
    if (log_[index - 1] != bytes) {
      throw Violation(region + " has another history at entry " + std::to_string(index));
    }
    return;
  }
  if (index != log_.size() + 1) throw Violation(region + " skips an entry");
  log_.push_back(bytes);
  if (const auto* membership = std::get_if<Membership>(&entry.body)) membership_ = *membership;
  const auto* record = std::get_if<CommitRecord>(&entry.body);
  if (record == nullptr) return;
  const std::size_t needed =
      std::min(copies_needed(membership_, evidence), copies_needed(evidence.newest, evidence));
  if (evidence.copies < needed) {
    throw Violation(region + " committed round " + std::to_string(record->round) + " with " +
                    std::to_string(evidence.copies) + " copies on disk");
  }
  const Effect effect = effect_of(*record, records_.size(), revision_);
  if (effect == Effect::replaces) {
    check_withdrawal(*record);
    replace(*record);
    indices_.push_back(index);
  } else if (effect == Effect::next) {
    check_record(*record, evidence);
    take(*record);
    indices_.push_back(index);
  } else if (revision_ == 0) {
    throw Violation("a round is skipped or repeated");
  }
}

// It is the record that it replaces, without what it takes out.
void History::check_withdrawal(const CommitRecord& record) const {
  const CommitRecord& before = records_[record.round];
  std::set<ContributionKey> lost;
  for (const Participant& one : record.withdrawn) lost.insert(key_of(one));
  if (diloco::serialize(withdraw(before, lost, revision_)) != diloco::serialize(record))
    throw Violation("a round is changed by more than what is taken out of it");
}

void History::replace(const CommitRecord& record) {
  ++revision_;
  for (const Participant& one : record.withdrawn) withdrawn_[key_of(one)].insert(one.payload);
  std::vector<CommitRecord> kept(records_.begin(),
                                 records_.begin() + static_cast<std::ptrdiff_t>(record.round));
  kept.push_back(record);
  indices_.resize(record.round);
  records_.clear();
  listed_.clear();
  counted_.clear();
  listed_in_.clear();
  k_ = 0;
  for (const CommitRecord& one : kept) take(one);
}

void History::take(const CommitRecord& record) {
  for (const Participant& participant : record.participants) {
    // A round before it may have been changed since: then its region did the round anew.
    const auto gone = withdrawn_.find(key_of(participant));
    if (gone != withdrawn_.end() && gone->second.contains(participant.payload))
      throw Violation("work of " + participant.region + " that was taken out is listed");
    if (!listed_.insert(key_of(participant)).second)
      throw Violation("work of " + participant.region + " is listed twice");
    check_samples(participant);
  }
  for (const inter::BlobId& blob : applied_blobs(record)) listed_in_[blob] = record.round;
  if (record.k_decision) check_k(*record.k_decision);
  records_.push_back(record);
}

// A majority; or all that are left when a minority of the voters lost their disks.
std::size_t History::copies_needed(const Membership& membership, const Evidence& evidence) {
  const std::size_t voters = membership.voters();
  const std::size_t majority = voters / 2 + 1;
  const auto lost = static_cast<std::size_t>(
      std::ranges::count_if(membership.members, [&evidence](const Member& member) {
        return !member.incarnation.empty() && !evidence.disks.contains(member.incarnation);
      }));
  return lost < majority ? std::min(majority, voters - lost) : majority;
}

void History::check_record(const CommitRecord& record, const Evidence& evidence) {
  const std::size_t regions = membership_.regions().size();
  // So many that one is left whatever fails; where witnesses make the majority, fewer can hold it.
  const std::size_t witnesses = membership_.members.size() - regions;
  const std::size_t majority = membership_.voters() / 2 + 1;
  const std::size_t wanted =
      std::min((membership_.voters() - 1) / 2 + 1, majority > witnesses ? majority - witnesses : 1);
  std::set<std::string> contributors;
  for (const Participant& participant : record.participants) {
    contributors.insert(participant.region);
    const bool expired = !records_.empty() && participant.round < records_.back().expired_before;
    if (expired) throw Violation("expired work of " + participant.region + " is listed");
    const auto made = made_.find(participant.payload);
    if (made != made_.end() && made->second.region != participant.region)
      throw Violation("work of " + made->second.region + " is listed as " + participant.region +
                      "'s");
  }
  for (const inter::BlobId& blob : applied_blobs(record)) {
    const std::size_t holders = evidence.holders.at(to_hex(blob.hash));
    if (holders >= wanted) continue;
    const Samples& made = made_.at(blob);
    throw Violation("round " + std::to_string(record.round) + " lists a payload of " + made.region +
                    " (of round " + std::to_string(made.round) + ") that " +
                    std::to_string(holders) + " regions hold");
  }
  const auto counts = [this](const Member& member) {
    if (member.witness) return false;
    if (!member.incarnation.empty() || records_.empty()) return true;
    return std::ranges::any_of(records_.back().standings, [&member](const Standing& standing) {
      return standing.region == member.region && standing.liveness > 0;
    });
  };
  const auto counted = static_cast<std::size_t>(std::ranges::count_if(membership_.members, counts));
  const std::size_t most = (counted + witnesses) / 2 + 1;
  const std::size_t least = contributions_min_ > 0 ? contributions_min_
                            : most > witnesses     ? most - witnesses
                                                   : 1;
  if (contributors.size() < least) {
    throw Violation("a round committed with too few contributions");
  }
}

// Whoever decides goes on from what was decided before.
void History::check_k(const KDecision& decision) {
  if (k_ > 0 && decision.from != k_) throw Violation("a decision forgets the K before it");
  const bool by_budget = decision.verdict >= KDecision::Verdict::stretched;
  if (by_budget) return void(k_ = decision.k);
  if (decision.k > 2 * decision.from || 2 * decision.k < decision.from)
    throw Violation("K changes by more than twice or half");
  k_ = decision.k;
}

void History::check_samples(const Participant& participant) {
  const Samples& samples = made_.at(participant.payload);
  for (const Samples& other : counted_[participant.region]) {
    if (samples.begin < other.end && other.begin < samples.end) {
      throw Violation("samples of " + participant.region + " are counted twice");
    }
  }
  counted_[participant.region].push_back(samples);
}

}  // namespace causeway::diloco::testing
