// The contributions to open rounds that this region knows, its own and the others': neither listed
// nor expired so far. And its newest own one for good, as samples that were used must not be used
// again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diloco/region/action.h"
#include "diloco/region/protocol_options.h"
#include "diloco/region/run_history.h"

namespace causeway::diloco {

class Contributions {
 public:
  // All must outlive this.
  Contributions(const ProtocolOptions& options, const RunHistory& history, Outbox& out)
      : options_(options), history_(history), out_(out) {}

  // An own one that was on disk; kept: it may be listed as far as its payload goes.
  void restore(const Contribution& own, bool kept);

  const std::map<ContributionKey, Contribution>& open() const { return open_; }
  const Contribution* find(const ContributionKey& key) const;
  const Contribution* own(Round round) const { return find({options_.self, round, 0}); }
  const std::optional<Contribution>& newest_own() const { return newest_own_; }
  bool names(const inter::BlobId& blob) const;
  // It may still be listed: it is neither listed nor expired, and none of its samples was counted.
  bool is_open(const Contribution& contribution) const;
  // Samples of a contribution that expired were used all the same: its work is in the worker's
  // residual.
  std::uint64_t data_cursor() const;

  // ---- Own ones ----
  // Stamped with how long rounds take here. The newest is kept even if it cannot be listed.
  Contribution add_own(Contribution made, Time now);
  // The leader says that this one comes from a wrong state, or its payload is here no more.
  void reject_own(Round round);
  void save_own();
  // The last one's outcome is decided, but all of it has not been here yet: of this round.
  std::optional<Round> awaited() const;
  void outcome_is_here(Time now) { pending_->took = now - pending_->since; }

  // ---- Others' ----
  // Whether a contribution that `peer` told of is one to keep in mind.
  bool judge(const std::string& peer, const Contribution& contribution,
             const Membership& membership);
  // Payloads of those that a newer one of the same region puts aside; none: it is older itself.
  std::optional<std::vector<inter::BlobId>> displaced_by(const ContributionKey& key);
  // It replaces what the region said before of the same round.
  void put(const Contribution& contribution) { open_[key_of(contribution)] = contribution; }

  // Its own region said so, since its link is up: it was not passed on by another one alone.
  bool told(const ContributionKey& key) const;
  // Who said that it holds how much of its payload, in case this region comes to lead.
  std::map<std::string, std::uint64_t> held(const ContributionKey& key) const;
  void set_held(const ContributionKey& key, const std::string& peer, std::uint64_t bytes) {
    peers_hold_[key][peer] = bytes;
  }
  void forget_held(const ContributionKey& key) { peers_hold_.erase(key); }
  // Rounds after this one begin from other states now. Returns the payloads.
  std::vector<inter::BlobId> void_after(Round round);
  void forget_word_of(const std::string& peer);  // it says so anew

  // Listed or expired: settled. What is made from another state than the agreed one never counts.
  // Returns the payloads.
  std::vector<inter::BlobId> settle(const CommitRecord& record);

 private:
  // How long rounds take here: when the worker contributed last, and for how long the outcome was
  // under way.
  struct Pending {
    Round round = 0;
    Time since{0};
    std::optional<Time> took{};
  };
  void stamp(Contribution& contribution, Time now);

  const ProtocolOptions& options_;
  const RunHistory& history_;
  Outbox& out_;
  std::map<ContributionKey, Contribution> open_;
  std::map<ContributionKey, std::map<std::string, std::uint64_t>> peers_hold_;
  std::optional<Contribution> newest_own_;
  std::optional<Pending> pending_;
};

}  // namespace causeway::diloco
