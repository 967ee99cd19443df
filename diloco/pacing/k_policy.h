// K while the run goes on: when to change it, and to what (docs/choosing-k.md). A pure function of
// the records so far: whoever leads decides the same, after a restart as well, and every region
// knows before a round what K its record will say.
//
// - Every refit_rounds rounds of full length it fits step, exchange and preparation to medians, and
//   takes the K between K/2 and 2K, and within the limits, with the least predicted time to a loss
//   (objective.h). Less than 3 % is not worth a change.
// - After a change the held-out loss of the first three models made with the new K is compared with
//   where it stood: worse by more than two standard errors, K goes back, and stays on that side of
//   the middle for a while. Without held-out losses there is no such trial.
// - Rounds shortened for warm-up, or by the end of the run, do not count.
// - What the budget for egress asks for (egress_meter.h) goes before all that: while K is larger
// for
//   its sake nothing else changes K. Less than 10 % is not worth a change: what is missing
//   grows until it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "diloco/pacing/egress_meter.h"
#include "diloco/pacing/objective.h"
#include "diloco/pacing/time_model.h"

namespace causeway::diloco {

struct KPolicyOptions {
  std::uint32_t k_min = 0, k_max = 0;  // equal: K stays
  std::uint32_t refit_rounds = 10;
  tuner::StatisticalPrice price;
  tuner::Overlap overlap;  // its fragments divide every K
  EgressBudget budget = {};

  bool adapts() const { return k_min < k_max; }
  bool measures() const { return adapts() || budget.changes_k(); }
};

// Of a round of `steps` nominal steps, from its listed contributions that are not late; none if
// they do not tell.
std::optional<RoundMeasure> measure(std::span<const Contribution* const> listed,
                                    std::uint32_t steps);

class KPolicy {
 public:
  KPolicy(const KPolicyOptions& options, const Pace& pace);

  // The next record, of a round of `steps` nominal steps that began after `step` of them.
  void add(const CommitRecord& record, std::uint64_t step, std::uint32_t steps);

  std::uint32_t k() const { return k_; }  // of the open round
  // The newest, in words; empty: none.
  const std::string& change() const { return change_; }
  bool pauses() const { return pauses_; }  // the open round lasts until there is new money
  const EgressMeter& egress() const { return egress_; }
  // For the record of the open round.
  const std::optional<KDecision>& next() const { return next_; }

 private:
  struct Evaluation {
    double step = 0, loss = 0;
  };
  struct Trial {  // of a K that was just taken up
    std::uint32_t from = 0;
    Round decided = 0;
    std::vector<Evaluation> after;
  };
  struct Bar {  // K is not to come near one that was given up
    std::uint32_t k = 0;
    Round until = 0;
  };

  void add_evaluation(Round round, const Evaluation& evaluation);
  void follow(const KDecision& decision, Round round);
  std::optional<KDecision> decide() const;
  std::optional<KDecision> keep_budget() const;
  KDecision judge() const;
  KDecision refit() const;
  tuner::RoundCosts fit() const;
  std::vector<std::uint32_t> candidates() const;

  KPolicyOptions options_;
  EgressMeter egress_;
  std::uint32_t k_;
  std::uint32_t free_k_;  // without the budget
  Round version_ = 0;
  std::vector<RoundMeasure> window_;     // of full rounds with this K, the newest refit_rounds
  std::uint32_t rounds_ = 0;             // full ones since the last decision
  std::vector<Evaluation> evaluations_;  // the newest, of models made before the trial
  std::optional<Trial> trial_;
  std::optional<Bar> bar_;
  std::string change_;
  bool pauses_ = false;
  std::optional<KDecision> next_;
};

}  // namespace causeway::diloco
