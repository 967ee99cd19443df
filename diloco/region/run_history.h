// What the run has agreed on so far, and what follows from it alone: where the steps, the data and
// K stand. The same in every region with the same records. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "diloco/log/membership.h"
#include "diloco/log/messages.h"
#include "diloco/log/record.h"
#include "diloco/log/records.h"
#include "diloco/maths/train.h"
#include "diloco/pacing/k_policy.h"
#include "diloco/region/protocol_options.h"

namespace causeway::diloco {

// Keeps track of a region's share of the training data, record by record. Pure.
class DataPlan {
 public:
  // `own_data`: each region has data of its own, and all of it is its share, in one pass for ever.
  explicit DataPlan(std::string region, bool own_data = false)
      : region_(std::move(region)), own_data_(own_data) {}

  // The log's first members share the data of the first rounds; later calls change nothing.
  void begin(const Membership& first);
  void add(const CommitRecord& record);

  // Of the round after the last record; none if the region has no part in it yet.
  std::optional<DataShare> share() const;
  std::uint64_t cursor() const { return cursor_; }  // after what is listed of this region

 private:
  std::string region_;
  bool own_data_;
  std::set<std::string> regions_;  // of the next round
  std::uint64_t pass_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t cursor_ = 0;
};

class RunHistory {
 public:
  // Both must outlive this. The run begins when its id is known.
  RunHistory(const ProtocolOptions& options, const RaftLog& log);
  void begin(std::string run_id);
  void add_members(const Membership& members);
  // Of the log's first entry; none while it is not known.
  const std::optional<Membership>& first_members() const { return first_members_; }
  // The record of the next round is entry `index` of the log.
  void append(Index index);
  // Entry `index` of the log takes contributions out of its round again (diloco/log/records.h).
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
  std::uint32_t revision_ = 0;
  std::set<ContributionKey> withdrawn_;

  void take(const CommitRecord& record);
};

}  // namespace causeway::diloco
