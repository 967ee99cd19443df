// What the shards of a draft add up to, by the word of those who summed them, and who holds these
// sums: the leader's count of it. Pure.
//
// Two regions sum each shard, and their sums agree to the byte. If they do not, or if one of them
// is out of reach or says nothing, another region is given the shard. The word of one region alone
// counts once another was asked too and nothing new was said for long, or if nobody is left to ask.
// What leads nowhere is given up, and the round is decided anew.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/region/shards.h"

namespace causeway::diloco {

// Summers on which earlier votes tell not to rely.
struct DoubtedSummers {
  std::set<std::string> ignored = {};  // their word does not count
  std::set<std::string> late = {};     // it counts, but one more is asked at once
};

class ShardVote {
 public:
  // `patience`: for how long a summer within reach may be silent, at first.
  ShardVote(CommitRecord record, std::uint32_t shards, Summers summers, Time patience, Time now,
            DoubtedSummers doubted = {});

  const Draft& draft() const { return draft_; }
  void hear(const std::string& region, const ShardSums& sums, Time now);
  // More bytes arrived there. Whoever keeps others waiting with its own sum cannot put it off so.
  void note_progress(const std::string& region, Time now);
  // Gives shards to further regions where that is due; true if it did.
  bool look(const std::set<std::string>& up, Time now);
  // Lists one sum for each shard once there are; true if it did.
  bool settle(const std::set<std::string>& up, Time now);
  bool settled() const { return !draft_.record.sums.empty(); }
  std::size_t holders() const { return holders_.size(); }  // of all that are listed
  // Somebody within reach has each of them.
  bool obtainable(const std::set<std::string>& up) const;
  // Nobody is left who could say what is missing, or serve what was settled on.
  bool leads_nowhere(Time now) const;
  // Whose word was settled on although nobody else said the same.
  std::set<std::string> unconfirmed() const;
  // Who was silent for longer than the patience although another region had a shard's sum.
  const std::set<std::string>& late() const { return late_; }
  std::optional<Time> deadline() const;
  std::string waiting_for() const;

 private:
  struct Shard {
    std::map<std::string, inter::BlobId> words;
    std::size_t summers = 0;  // that it was given to
  };
  std::size_t usual_summers() const;
  bool is_silent(std::uint32_t shard, const std::string& region) const;
  bool is_waited_for(std::uint32_t shard, const std::string& region) const;
  bool was_given_to_all(std::uint32_t shard) const;
  std::set<std::string> silent(std::uint32_t shard) const;
  std::size_t awaited(std::uint32_t shard, const std::set<std::string>& up) const;
  std::optional<inter::BlobId> winner(std::uint32_t shard, const std::set<std::string>& up,
                                      Time now) const;

  Draft draft_;
  Digest digest_;
  std::vector<Shard> shards_;
  std::set<std::string> holders_;
  Summers summers_;
  DoubtedSummers doubted_;
  std::set<std::string> late_;
  Time patience_;
  Time moved_at_;  // somebody was asked, said something new, or gets what was settled on
};

}  // namespace causeway::diloco
