#include "diloco/pacing/k_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "diloco/pacing/time_model.h"

namespace causeway::diloco {
namespace {

using Verdict = KDecision::Verdict;

constexpr double kWorthwhile = 0.97;  // predicted time, new by old
constexpr std::size_t kEvaluationsAfter = 3;
constexpr std::size_t kEvaluationsBefore = 4;  // at least; with fewer nothing can be judged
constexpr std::size_t kEvaluationsKept = 10;
constexpr double kStandardErrors = 2;
constexpr int kStepsPerOctave = 8;  // of the K's that are tried
constexpr Round kBarredRefits = 3;
constexpr double kSlowestOfMedian = 16;
constexpr double kWorthStretching = 1.1, kWorthRelaxing = 0.9;

template <typename Value>
double median(std::span<const RoundMeasure> rounds, Value&& value) {
  std::vector<double> values;
  for (const RoundMeasure& round : rounds) values.push_back(value(round));
  return tuner::quantile(std::move(values), 0.5);
}

// A line through points that are not all at one place: where it ends, and how far single points
// stray.
struct Line {
  double end = 0, deviation = 0;
};
template <typename Points>
Line fit_line(const Points& points) {
  const auto n = static_cast<double>(points.size());
  double step = 0, loss = 0, step_squared = 0, product = 0;
  for (const auto& point : points) step += point.step / n, loss += point.loss / n;
  for (const auto& point : points) {
    step_squared += (point.step - step) * (point.step - step);
    product += (point.step - step) * (point.loss - loss);
  }
  const double slope = step_squared > 0 ? product / step_squared : 0;
  double squared = 0;
  for (const auto& point : points) {
    const double off = point.loss - loss - slope * (point.step - step);
    squared += off * off;
  }
  return {loss + slope * (points.back().step - step), std::sqrt(squared / (n - 2))};
}

std::string fitted(const KDecision& decision) {
  return fmt::format("a step takes {:.3g} s, an exchange {:.3g} s, preparing it {:.3g} s",
                     decision.step_s, decision.exchange_s, decision.prepare_s);
}

std::string until(const KDecision& decision) {
  return decision.spending ? end_of(*decision.spending) : "";
}

std::string judged(const KDecision& decision) {
  return fmt::format("held-out loss {:.4f} -> {:.4f}, standard error of the difference {:.4f}",
                     decision.held_out_before, decision.held_out_after, decision.standard_error);
}

}  // namespace

std::string to_string(const KDecision& decision) {
  const std::string k = std::to_string(decision.k);
  const std::string change = fmt::format("K {} -> {}: ", decision.from, k);
  const std::string egress = decision.spending ? to_string(*decision.spending) : "";
  switch (decision.verdict) {
    case Verdict::kept:
      return "K stays " + k + ": " + fitted(decision) +
             fmt::format("; the best K would save {:.1f} % of the time to a loss",
                         100 * (1 - decision.time_ratio));
    case Verdict::changed:
      return change + fitted(decision) +
             fmt::format("; predicted to save {:.1f} % of the time to a loss",
                         100 * (1 - decision.time_ratio));
    case Verdict::confirmed:
      return "K = " + k + " is confirmed: " +
             (decision.standard_error > 0 ? judged(decision) : "no held-out loss to judge it by");
    case Verdict::reverted:
      return change + judged(decision) + ": worse by more than two of them";
    case Verdict::stretched:
      return change + egress + "; so that it lasts until " + until(decision);
    case Verdict::paused:
      return change + egress + "; the regions train alone until about " + until(decision);
    case Verdict::relaxed:
      return change + (egress.empty() ? "the budget for egress asks for no more" : egress);
  }
  return {};
}

// One region that lies, or whose clock is wrong, must not decide. All evaluate the same model on
// the same sequences, so the middle loss is as good as any. Of the steps the slowest count, within
// bounds: of two regions those that the quicker one gives.
std::optional<RoundMeasure> measure(std::span<const Contribution* const> listed,
                                    std::uint32_t steps) {
  RoundMeasure round;
  std::vector<double> losses, steps_s;
  for (const Contribution* made : listed) {
    // Whatever was not measured somewhere, or is what a faulty clock says, is left out.
    const auto believable = [](double time_s) { return time_s > 0 && time_s < 1e9; };
    const bool timed = believable(made->exchange_s) && believable(made->overhead_s) &&
                       believable(made->compute_s) && steps > 0;
    if (made->held_out_loss && std::abs(*made->held_out_loss) < 1e30)
      losses.push_back(*made->held_out_loss);
    if (!timed) continue;
    const auto least = [first = steps_s.empty()](double known, double now) {
      return first ? now : std::min(known, now);
    };
    round.overhead_s = least(round.overhead_s, made->overhead_s);
    round.exchange_s = least(round.exchange_s, made->exchange_s);
    steps_s.push_back(made->compute_s / steps);
  }
  if (losses.empty() && steps_s.empty()) return std::nullopt;
  if (!losses.empty()) round.held_out_loss = tuner::quantile(losses, 0.5);
  std::ranges::sort(steps_s);
  if (!steps_s.empty())
    round.step_s = std::min(steps_s.back(), kSlowestOfMedian * steps_s[(steps_s.size() - 1) / 2]);
  return round;
}

KPolicy::KPolicy(const KPolicyOptions& options, const Pace& pace)
    : options_(options), egress_(options.budget, pace), k_(pace.k), free_k_(pace.k) {}

void KPolicy::add(const CommitRecord& record, std::uint64_t step, std::uint32_t steps) {
  version_ = record.round + 1;
  egress_.add(record, step, steps);
  if (!options_.measures()) return;
  const bool full = steps == k_ / options_.overlap.fragments;
  if (record.measured && full && record.measured->step_s > 0) {
    window_.push_back(*record.measured);
    if (window_.size() > options_.refit_rounds) window_.erase(window_.begin());
  }
  if (full) ++rounds_;
  if (record.measured && record.measured->held_out_loss)
    add_evaluation(record.round, {static_cast<double>(step), *record.measured->held_out_loss});
  if (record.k_decision) follow(*record.k_decision, record.round);
  next_ = decide();
}

// Of the model that the round began with. The first that a new K made is two rounds on from its
// decision.
void KPolicy::add_evaluation(Round round, const Evaluation& evaluation) {
  if (trial_ && round > trial_->decided + 1) return trial_->after.push_back(evaluation);
  evaluations_.push_back(evaluation);
  if (evaluations_.size() > kEvaluationsKept) evaluations_.erase(evaluations_.begin());
}

void KPolicy::follow(const KDecision& decision, Round round) {
  if (decision.verdict == Verdict::reverted)
    bar_ = {decision.from, round + kBarredRefits * options_.refit_rounds};
  if (decision.verdict == Verdict::confirmed && trial_) {
    for (const Evaluation& evaluation : std::exchange(trial_->after, {}))
      evaluations_.push_back(evaluation);
  }
  if (decision.k != k_) {
    window_.clear();
    change_ = fmt::format("round {}: {}", round, to_string(decision));
  }
  const bool judgeable = evaluations_.size() >= kEvaluationsBefore;
  if (decision.verdict == Verdict::changed && judgeable) {
    trial_ = Trial{.from = k_, .decided = round, .after = {}};
  } else {
    trial_.reset();
  }
  if (decision.verdict == Verdict::reverted) evaluations_.clear();
  rounds_ = 0;
  k_ = decision.k;
  pauses_ = decision.verdict == Verdict::paused;
  if (decision.verdict < Verdict::stretched) free_k_ = k_;
}

std::optional<KDecision> KPolicy::decide() const {
  if (const std::optional<KDecision> kept = keep_budget()) return kept;
  if (k_ != free_k_ || !options_.adapts()) return std::nullopt;
  const bool due = rounds_ >= options_.refit_rounds && 2 * window_.size() > options_.refit_rounds;
  if (trial_ && trial_->after.size() >= kEvaluationsAfter) return judge();
  if (trial_ && due) return KDecision{.verdict = Verdict::confirmed, .from = k_, .k = k_};
  if (!due) return std::nullopt;
  return refit();
}

std::optional<KDecision> KPolicy::keep_budget() const {
  if (egress_.steps_left() == 0) return std::nullopt;
  const std::optional<EgressMeter::Need> need = egress_.need();
  const double asked = need ? need->k : 0;
  KDecision decision{.verdict = Verdict::relaxed,
                     .from = k_,
                     .k = std::max(free_k_, static_cast<std::uint32_t>(asked))};
  if (need) decision.spending = need->because;
  if (asked > kWorthStretching * k_) {
    decision.verdict = need->pauses ? Verdict::paused : Verdict::stretched;
    return decision;
  }
  const bool shorter = decision.k > free_k_ ? decision.k < kWorthRelaxing * k_
                                            : k_ != free_k_ && asked < kWorthRelaxing * free_k_;
  return shorter ? std::optional(decision) : std::nullopt;
}

// Where the loss stood before is where a line through it ends; it falls on from there if all is
// well.
KDecision KPolicy::judge() const {
  KDecision decision{.verdict = Verdict::confirmed, .from = k_, .k = k_};
  const Line before = fit_line(evaluations_);
  const auto n = static_cast<double>(trial_->after.size());
  for (const Evaluation& evaluation : trial_->after) decision.held_out_after += evaluation.loss / n;
  decision.held_out_before = before.end;
  // Of a line's end, and of a mean.
  decision.standard_error =
      before.deviation * std::sqrt(4 / static_cast<double>(evaluations_.size()) + 1 / n);
  const double worse = decision.held_out_after - decision.held_out_before;
  if (worse <= kStandardErrors * decision.standard_error) return decision;
  decision.verdict = Verdict::reverted;
  decision.k = trial_->from;
  return decision;
}

KDecision KPolicy::refit() const {
  const tuner::RoundCosts costs = fit();
  const auto time = [&](std::uint32_t k) {
    return tuner::steps_factor(k, options_.price) * tuner::round_s(k, options_.overlap, costs) / k;
  };
  std::vector<tuner::Candidate> tried;
  for (const std::uint32_t k : candidates()) tried.push_back({k, time(k)});
  const tuner::Choice choice = tuner::choose_k(tried);
  KDecision decision{.verdict = Verdict::kept,
                     .from = k_,
                     .k = k_,
                     .step_s = costs.step_s,
                     .prepare_s = costs.prepare_s,
                     .exchange_s = costs.exchange_s,
                     .time_ratio = choice.time_s / time(k_)};
  if (choice.k == k_ || decision.time_ratio > kWorthwhile) return decision;
  decision.verdict = Verdict::changed;
  decision.k = choice.k;
  return decision;
}

// Medians, so that a round in which something else happened does not count for more than one.
tuner::RoundCosts KPolicy::fit() const {
  const double step_s = median(window_, [](const auto& round) { return round.step_s; });
  const auto hidden_steps =
      tuner::finish_step(options_.overlap, k_, 0) - tuner::start_step(options_.overlap, k_, 0);
  const double hidden_s = static_cast<double>(hidden_steps) * step_s;
  const double prepare_s = median(window_, [hidden_s](const RoundMeasure& round) {
    return std::max(0.0, round.overhead_s - std::max(0.0, round.exchange_s - hidden_s));
  });
  return {.step_s = step_s,
          .prepare_s = prepare_s * options_.overlap.fragments,
          .exchange_s = median(window_, [](const auto& round) { return round.exchange_s; })};
}

// Ascending, this K among them.
std::vector<std::uint32_t> KPolicy::candidates() const {
  const std::uint32_t fragments = options_.overlap.fragments;
  double low = std::max<double>(options_.k_min, k_ / 2.0);
  double high = std::min<double>(options_.k_max, 2.0 * k_);
  if (bar_ && version_ < bar_->until) {
    const double middle = std::sqrt(static_cast<double>(bar_->k) * k_);
    if (bar_->k > k_) high = std::min(high, middle);
    if (bar_->k < k_) low = std::max(low, middle);
  }
  std::vector<std::uint32_t> found{k_};
  const auto add = [&](double wanted) {
    const auto k = fragments * static_cast<std::uint32_t>(std::lround(wanted / fragments));
    if (k >= low && k <= high && k > 0) found.push_back(k);
  };
  add(options_.k_min);
  add(options_.k_max);
  for (int i = -kStepsPerOctave; i <= kStepsPerOctave; ++i)
    add(k_ * std::exp2(double(i) / kStepsPerOctave));
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace causeway::diloco
