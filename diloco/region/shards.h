// Sharded rounds: an exchange of which the bytes per region do not grow with the number of regions,
// as in a reduce-scatter and all-gather.
//
//   scatter   each payload comes in shards, which cover a part of the model each; each shard goes
//             to two regions alone, its summers
//   draft     the leader says which contributions the record will list, with which weights
//   sum       each summer adds up its shard of these, and encodes the sum as a payload; both make
//             the same bytes, or one of them is wrong
//   gather    every region gets the sums, and the record names them
//
// With payloads of P bytes a region sends some 3 P in all, and receives as much: 2 P to summers,
// and P of sums. In a full exchange it is as many P as there are other regions.
// docs/sharded-rounds.md has more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/record.h"
#include "diloco/region/agreement.h"
#include "diloco/region/protocol_options.h"
#include "diloco/region/run_history.h"

namespace causeway::diloco {

// With fewer, a full exchange is as cheap, or nearly.
constexpr std::size_t kShardedFrom = 5;
constexpr std::size_t kSummersPerShard = 2;

// Whether the round after `last`, at which so many regions take part, is sharded.
bool is_sharded_after(const CommitRecord* last, const ProtocolOptions& options);

// Who sums which shard of a round.
class Summers {
 public:
  Summers() = default;
  // In the round after `last`, null at version 0: whoever was listed in time.
  Summers(const CommitRecord* last, const Membership& membership);

  std::vector<std::string> of(std::uint32_t shard) const;
  // Who sends the sum to everybody; empty: it is not known who takes part.
  std::string first(std::uint32_t shard) const;
  bool sums(const std::string& region, std::uint32_t shard) const;
  // The n-th of all regions to give a shard to; those are the first.
  const std::string& further(std::uint32_t shard, std::size_t n) const;
  std::size_t count() const { return regions_.size() + others_.size(); }
  std::size_t usual_count() const { return regions_.size(); }
  bool includes(const std::string& region) const;  // in the usual ones
  // Bytes of a contribution that a region is to hold: of its own all.
  std::uint64_t bytes_for(const std::string& region, const Contribution& contribution) const;

 private:
  std::vector<std::string> regions_;
  std::vector<std::string> others_;  // that sum nothing as long as those do
};

// What this region is to hold and to sum, in the open round.
class ShardDuties {
 public:
  // All must outlive this.
  ShardDuties(const ProtocolOptions& options, const RunHistory& history, const Agreement& agreement)
      : options_(options), history_(history), agreement_(agreement) {}

  // Records or members may have changed.
  void look_again() { is_known_ = false; }
  // By the leader's word, of the open round: shards to sum beside the usual ones, and sums to get.
  // `further`: who was asked last for a shard, where the usual ones were not enough.
  void take_over(std::set<std::uint32_t> shards, std::vector<inter::BlobId> sums,
                 std::map<std::uint32_t, std::string> further = {});

  // Whether the open round is.
  bool sharded() const;
  const Summers& summers() const { return known().summers; }  // in the open round
  bool is_mine(std::uint32_t shard) const;
  // What is to be here of a contribution for the usual duties, and in all.
  std::vector<inter::BlobId> usual(const Contribution& contribution) const;
  std::vector<inter::BlobId> due(const Contribution& contribution) const;
  std::vector<inter::BlobId> sums() const;
  std::string maker_of_sum(std::uint32_t shard) const;  // who most likely has it

 private:
  const CommitRecord* last() const { return history_.newest(); }
  bool taken_over(std::uint32_t shard) const;

  const ProtocolOptions& options_;
  const RunHistory& history_;
  const Agreement& agreement_;
  Round taken_in_ = 0;
  std::set<std::uint32_t> taken_;
  std::vector<inter::BlobId> sums_;
  std::map<std::uint32_t, std::string> further_;
  // As last computed: every event asks, for every contribution.
  struct Known {
    Round version = 0;
    std::uint32_t revision = 0;
    Membership members;
    Summers summers;
    std::uint64_t own = 0;  // the shards that this region usually sums, a bit each
  };
  const Known& known() const;
  mutable std::optional<Known> known_;
  mutable bool is_known_ = false;  // to be right still
};

}  // namespace causeway::diloco
