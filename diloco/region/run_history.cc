#include "diloco/region/run_history.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "diloco/maths/digest.h"

namespace causeway::diloco {

const CommitRecord& Records::operator[](Round round) const {
  return at_index(index_of(round));
}

const CommitRecord& Records::at_index(Index index) const {
  return std::get<CommitRecord>(log_.at(index).body);
}

void Records::add(Index index) {
  const bool follows = !stretches_.empty() && index_of(size_ - 1) + 1 == index;
  if (!follows) stretches_.push_back({size_, index});
  ++size_;
}

void Records::rewind(Round round) {
  std::erase_if(stretches_, [round](const Stretch& stretch) { return stretch.round >= round; });
  size_ = round;
}

Index Records::index_of(Round round) const {
  assert(round < size_);
  const auto after = std::ranges::upper_bound(stretches_, round, {}, &Stretch::round);
  const Stretch& stretch = *std::prev(after);
  return stretch.index + (round - stretch.round);
}

RunHistory::RunHistory(const ProtocolOptions& options, const RaftLog& log)
    : options_(options),
      records_(log),
      data_plan_(options.self, options.own_data),
      k_policy_(options.k_policy, options.pace) {
  steps_before_.push(0);
}

void RunHistory::begin(std::string run_id) {
  assert(run_id_.empty());
  run_id_ = std::move(run_id);
  heads_.push(chain_start(run_id_));
}

void RunHistory::add_members(const Membership& members) {
  if (!first_members_) first_members_ = members;
  data_plan_.begin(members);
  for (const Member& member : members.members) {
    const auto [newest, is_new] = addresses_.try_emplace(member.region, member.address);
    if (is_new || newest->second == member.address) continue;
    newest->second = member.address;
    moved_.insert(member.region);
  }
}

void RunHistory::append(Index index) {
  records_.add(index);
  take(records_.back());
}

// All that follows from the records is computed anew, as it happens hardly ever.
void RunHistory::replace(Index index) {
  const CommitRecord record = records_.at_index(index);
  ++revision_;
  // Later rounds are made anew, by those whose payloads were lost there too.
  std::erase_if(withdrawn_, [&](const ContributionKey& key) { return key.round > record.round; });
  for (const Participant& one : record.withdrawn) withdrawn_.insert(key_of(one));
  records_.rewind(record.round);
  records_.add(index);
  data_plan_ = DataPlan(options_.self, options_.own_data);
  if (first_members_) data_plan_.begin(*first_members_);
  k_policy_ = KPolicy(options_.k_policy, options_.pace);
  stepless_ = 0;
  heads_ = {};
  heads_.push(chain_start(run_id_));
  steps_before_ = {};
  steps_before_.push(0);
  for (Round round = 0; round < records_.size(); ++round) {
    const CommitRecord next = records_[round];  // which asking for another one may end
    take(next);
  }
}

bool RunHistory::voids(Round version, const Digest& state) const {
  if (version > this->version()) return true;
  if (version < this->version()) return record(version).state != state;
  return newest() != nullptr && !newest()->withdrawn.empty();
}

// The records up to this one are known, and what follows from those before it.
void RunHistory::take(const CommitRecord& record) {
  const std::uint32_t steps = nominal_k(record.round);
  const std::uint64_t step = schedule_step();
  steps_before_.push(step + steps);
  if (steps == 0) ++stepless_;
  data_plan_.add(record);
  k_policy_.add(record, step, steps);
  heads_.push(chain_next(heads_.back(), serialize(record)));
}

void RunHistory::forget_before(Round round) {
  heads_.forget_before(round);
  steps_before_.forget_before(round);
}

bool RunHistory::over() const {
  return steps_before_.back() >= options_.pace.steps && stepless_ + 1 >= options_.pace.fragments;
}

std::optional<Digest> RunHistory::other_head(const Status& status) const {
  const bool comparable = status.revision == revision_ && status.version > 0 &&
                          status.version >= heads_.first() && status.version < heads_.size();
  if (!comparable || heads_[status.version] == status.head) return std::nullopt;
  return heads_[status.version];
}

std::uint32_t RunHistory::nominal_k(Round round) const {
  return round == 0 ? options_.pace.round_steps(0) : records_[round - 1].next_k;
}

std::uint32_t RunHistory::nominal_next_k() const {
  const auto& decision = k_policy_.next();
  return options_.pace.round_steps(schedule_step() + nominal_k(version()),
                                   decision ? decision->k : k_policy_.k());
}

std::uint32_t RunHistory::k_of(const std::string& region) const {
  if (!records_.empty()) {
    for (const Standing& standing : records_.back().standings) {
      if (standing.region == region && standing.next_k > 0) return standing.next_k;
    }
  }
  return nominal_k(version());
}

std::uint64_t RunHistory::steps_left(Round version, std::uint64_t taken) const {
  const std::uint64_t all = options_.pace.steps;
  return all - std::min(all, schedule_step(version) + taken);
}

std::uint64_t RunHistory::steps_since_exchange() const {
  const Round before = version() + 1 - std::min<Round>(version() + 1, options_.pace.fragments);
  return schedule_step() + nominal_k(version()) - steps_before_[before];
}

Round RunHistory::rounds_kept() const {
  return std::max<Round>(2, (options_.staleness_max + 1) * options_.pace.fragments);
}

}  // namespace causeway::diloco
