// The contributions that a round may list, and who has how much of each one's payload: what the
// decider goes by. No time, no reach: who can be asked now is the caller's to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/planted_bug.h"
#include "diloco/region/shards.h"
#include "diloco/round/shard_supply.h"

namespace causeway::diloco {

class Candidates {
 public:
  struct Candidate {
    Contribution contribution;
    std::map<std::string, std::uint64_t> received_bytes;  // by holder
    std::set<std::string> holders;                        // of all that they are to hold
  };

  explicit Candidates(PlantedBug planted) : planted_(planted) {}

  // What each region is to hold of a payload follows from them.
  void set_summers(Summers summers);
  const Summers& summers() const { return summers_; }

  // `holder` has `received_bytes` of the contribution's payload. True: more than it was known to
  // have, of one that is_own_word().
  bool add(const Contribution& contribution, const std::string& holder,
           std::uint64_t received_bytes);
  // It says anew what it holds: it may have lost its disk.
  void forget_word_of(const std::string& region);
  void erase(const ContributionKey& key) { by_key_.erase(key); }
  // Takes out what the record lists, lets expire, or was made from another state than its own.
  void settle(const CommitRecord& committed);

  const std::map<ContributionKey, Candidate>& all() const { return by_key_; }
  const Candidate* find(const ContributionKey& key) const;
  const Candidate& at(const ContributionKey& key) const { return by_key_.at(key); }

  // Its own region told of it. What another one passes on in its name may be made up: that counts
  // for who holds what, and for nothing else.
  bool is_own_word(const Candidate& candidate) const;
  // The first part of what each region contributed to the round, by its own word; by region.
  std::vector<const Contribution*> first_to(Round round) const;
  // The region says that it sits this round out.
  bool sits_out(const std::string& region, Round round) const;
  // Held by so many regions, one of which is `up`: it can be asked now.
  bool is_obtainable(const Candidate& candidate, std::size_t required,
                     const std::set<std::string>& up) const;
  ShardSupply supply_of(const Candidate& candidate, const std::set<std::string>& up) const {
    return {candidate.contribution, candidate.holders, up, summers_};
  }
  // One of `up` still has all that the record lists.
  bool can_supply(const CommitRecord& draft, const std::set<std::string>& up) const;

 private:
  void set_bytes(Candidate& candidate, const std::string& holder, std::uint64_t bytes) const;

  PlantedBug planted_;
  Summers summers_;
  std::map<ContributionKey, Candidate> by_key_;
};

// How many regions must hold what a record lists, of these members: one more than may fail while
// the run goes on, so that one is always left; two at least. Once it is `hurried`, those that are
// not `up` cannot be asked to hold anything, but no fewer will do than every majority has,
// witnesses left out.
std::size_t holders_required(const Membership& membership, const std::set<std::string>& up,
                             bool hurried);

}  // namespace causeway::diloco
