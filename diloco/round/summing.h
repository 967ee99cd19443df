// What a region sums in a sharded round (diloco/region/shards.h): its shards of what the leader's
// draft lists, each as soon as all of it is here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/region/region.h"
#include "diloco/round/leader.h"

namespace causeway::diloco {

class Summing {
 public:
  // Both must outlive this.
  Summing(Region& region, Leader& leader) : region_(region), leader_(leader) {}

  // Kept until its round is open here, and its sender leads as far as is known here.
  void hear(const std::string& peer, const Draft& draft) { told_[peer] = draft; }
  void sum(Time now);          // what there is to sum now
  void tell_leader(Time now);  // all that was summed so far
  void on_summed(const Digest& draft, std::uint32_t shard, const inter::BlobId& sum, Time now);
  void on_lost(const inter::BlobId& blob);                   // a sum that this region made
  void on_failed(const Digest& draft, std::uint32_t shard);  // an input was damaged
  bool is_at(const Digest& draft) const;                     // its sums are still of use
  // Says so if the record takes another sum than this region made.
  void check(const CommitRecord& record);

 private:
  void take_told(Time now);
  bool is_of_open_round(const Draft& draft) const;
  void take(const Draft& draft, Time now);
  void compare(std::uint32_t shard, const inter::BlobId& sum) const;
  std::optional<std::vector<inter::BlobId>> inputs_of(std::uint32_t shard) const;
  std::uint32_t shard_count() const;
  void push_around(std::uint32_t shard, const inter::BlobId& sum);

  Region& region_;
  Leader& leader_;
  std::map<std::string, Draft> told_;
  std::uint64_t own_taken_ = 0;  // of the drafts that this region told as leader
  std::optional<Draft> draft_;
  Digest digest_{};
  std::set<std::uint32_t> begun_;
  std::map<std::uint32_t, inter::BlobId> sums_;  // that this region made of it
  // Of the last record, for sums that come later.
  struct Decided {
    Round round = 0;
    Digest draft{};
    std::vector<inter::BlobId> sums;
  };
  std::optional<Decided> decided_;
  std::optional<Digest> held_;  // all that it lists are here
};

}  // namespace causeway::diloco
