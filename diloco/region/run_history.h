// What the run has agreed on so far, and what follows from it alone: where the steps, the data and
// K stand. The same in every region with the same records. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/messages.h"
#include "diloco/log/raft_log.h"
#include "diloco/log/record.h"
#include "diloco/maths/train.h"
#include "diloco/pacing/k_policy.h"
#include "diloco/region/data_plan.h"
#include "diloco/region/protocol_options.h"

namespace causeway::diloco {

// The records of the rounds that were committed, by round, in the log: of the newest in memory, of
// earlier ones on disk.
class Records {
 public:
  explicit Records(const RaftLog& log) : log_(log) {}

  Round size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Both valid until the log changes or another record is asked for.
  const CommitRecord& operator[](Round round) const;
  const CommitRecord& at_index(Index index) const;
  const CommitRecord& back() const { return (*this)[size_ - 1]; }

  // The record of the next round is entry `index`.
  void add(Index index);
  void rewind(Round round);  // without the records of this round and later ones
  Index index_of(Round round) const;

 private:
  // Most entries are records, so a run of rounds that follow each other in the log is a place.
  struct Stretch {
    Round round = 0;
    Index index = 0;
  };

  const RaftLog& log_;
  std::vector<Stretch> stretches_;  // ascending
  Round size_ = 0;
};

// A sequence of which only the newest elements are kept.
template <typename T>
class Tail {
 public:
  std::size_t size() const { return forgotten_ + kept_.size(); }
  bool empty() const { return size() == 0; }
  std::size_t first() const { return forgotten_; }  // that is kept
  const T& operator[](std::size_t i) const { return kept_.at(i - forgotten_); }
  const T& back() const { return kept_.back(); }
  void push(T element) { kept_.push_back(std::move(element)); }
  void forget_before(std::size_t i) {
    for (; forgotten_ < i; ++forgotten_) kept_.pop_front();
  }

 private:
  std::deque<T> kept_;
  std::size_t forgotten_ = 0;
};

class RunHistory {
 public:
  // Both must outlive this. The run begins when its id is known.
  RunHistory(const ProtocolOptions& options, const RaftLog& log);
  void begin(std::string run_id);
  void add_members(const Membership& members);
  // Of the log's first entry; none while it is not known.
  const std::optional<Membership>& first_members() const { return first_members_; }
  // Regions whose address is not always the same in the log: an operator changed it.
  const std::set<std::string>& moved() const { return moved_; }
  // The record of the next round is entry `index` of the log.
  void append(Index index);
  // Entry `index` of the log takes contributions out of its round again (diloco/log/withdraw.h).
  void replace(Index index);
  // What of rounds before this one is more than their place in the log leaves memory.
  void forget_before(Round round);

  std::uint32_t revision() const { return revision_; }  // how often that has happened
  bool is_withdrawn(const ContributionKey& key) const { return withdrawn_.contains(key); }
  // A state of this version is of a history that was taken back, as far as can be known.
  bool voids(Round version, const Digest& state) const;

  const std::string& run_id() const { return run_id_; }
  Round version() const { return records_.size(); }
  bool over() const;  // every round is committed
  // Both valid until the log changes or another record is asked for.
  const CommitRecord& record(Round round) const { return records_[round]; }
  const CommitRecord* newest() const { return records_.empty() ? nullptr : &records_.back(); }
  Index index_of(Round round) const { return records_.index_of(round); }
  Digest head() const { return heads_.empty() ? Digest{} : heads_.back(); }
  // If its sender's records are not these: the head that this region has at their version.
  std::optional<Digest> other_head(const Status& status) const;

  const KPolicy& k_policy() const { return k_policy_; }
  // Inner steps of a round up to the open one: what the record before it says.
  std::uint32_t nominal_k(Round round) const;
  std::uint32_t nominal_next_k() const;                 // of the round after the open one
  std::uint32_t k_of(const std::string& region) const;  // in the open round
  // Of all rounds before the open one.
  std::uint64_t schedule_step() const { return steps_before_.back(); }
  // Of all before this one; of one that is forgotten, of the oldest that is not.
  std::uint64_t schedule_step(Round round) const {
    return steps_before_[std::max(round, steps_before_.first())];
  }
  // Of the whole run, where a region took so many since this version.
  std::uint64_t steps_left(Round version, std::uint64_t taken) const;
  // Since the open round's fragment was exchanged before.
  std::uint64_t steps_since_exchange() const;

  // This region's part of the data in the open round; none if it has none yet.
  std::optional<DataShare> share() const { return data_plan_.share(); }
  std::uint64_t data_cursor() const { return data_plan_.cursor(); }

  // Payloads of this many rounds are kept even if a snapshot covers them, for regions that are just
  // behind: whoever may still contribute late must be able to replay.
  Round rounds_kept() const;
  Round kept_from() const { return last(rounds_kept()); }  // the first of them
  // The newest `rounds` begin with this one.
  Round last(Round rounds) const { return version() - std::min(version(), rounds); }

 private:
  const ProtocolOptions& options_;
  std::string run_id_;
  Records records_;
  DataPlan data_plan_;
  KPolicy k_policy_;
  Tail<Digest> heads_;  // of the chain over the records; heads_[v] after v of them
  // Nominal inner steps of all rounds before version v: where the inner learning rate's schedule
  // stands in all regions, whatever steps each took.
  Tail<std::uint64_t> steps_before_;
  Round stepless_ = 0;  // rounds after the last step
  std::optional<Membership> first_members_;
  std::map<std::string, std::string> addresses_;  // the newest of every region that was a member
  std::set<std::string> moved_;
  std::uint32_t revision_ = 0;
  std::set<ContributionKey> withdrawn_;

  void take(const CommitRecord& record);
};

}  // namespace causeway::diloco
