// How much of a tuning to believe.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/run/learning/recipe.h"
#include "apps/run/page/format.h"
#include "apps/run/tune/tune.h"
#include "diloco/region/shards.h"

namespace causeway::run {
namespace {

constexpr double kBillion = 1e9;
constexpr double kNoisy = 0.2;         // deviation of a step's time, share of it
constexpr double kCloseEnough = 0.10;  // predicted against measured round time

std::string percent(double share) {
  return format_fixed(100 * share, 1) + " %";
}

std::string with_error(double value, double error, int decimals) {
  return format_fixed(value, decimals) + " +- " +
         (std::isfinite(error) ? format_fixed(error, decimals) : std::string("?"));
}

bool calibrated(const Tuning& tuning) {
  return tuning.calibration.known();
}

// How to measure what was not, as the end of a sentence; empty where nobody can.
std::string to_calibrate(const Tuning& tuning) {
  if (tuning.by_program) return "";
  return tuning.recorded ? "; calibrate with `causeway tune --calibrate SECONDS`"
                         : "; calibrate with --calibrate SECONDS";
}

void warn_of_lockstep(Tuning& tuning) {
  tuning.warnings.push_back(
      "this assumes that synchronising every step needs as many steps as K = " +
      format_fixed(tuning.price.k_reference, 0) +
      ". It may need fewer: then less is saved than this says" + to_calibrate(tuning));
}

// What others than the configured one need.
void tell_recipes(Tuning& tuning) {
  const Calibration& calibration = tuning.calibration;
  for (const auto& [recipe, price] : calibration.prices) {
    if (recipe == tuning.configured) continue;
    tuning.reasons.push_back(fmt::format(
        "{} needs {} times the steps of {} at K = {}, and its lambda is {}", to_string(recipe),
        with_error(price.steps, price.steps_error, 2), to_string(tuning.configured), calibration.k,
        with_error(price.lambda, price.lambda_error, 3)));
  }
}

void judge_price(Tuning& tuning) {
  const Calibration& calibration = tuning.calibration;
  if (calibration.triples > 0 && calibration.fit.b <= 0) {
    tuning.warnings.push_back(
        "the calibration's runs reached a lower loss with half the tokens, so they give no lambda. "
        "The published lambda is used; give --calibrate more seconds");
  }
  if (!calibrated(tuning)) {
    tuning.reasons.push_back(
        "lambda = 0.15 is that of published runs of 1B parameters; it was not calibrated for this "
        "model and data");
    const auto n = double(tuning.probe.parameters);
    if (n < kPricedFrom || n > 4 * kBillion) {
      tuning.warnings.push_back("the model has " + format_count(tuning.probe.parameters) +
                                " parameters, but the published prices of K are for 35M to 4B" +
                                to_calibrate(tuning));
    }
    warn_of_lockstep(tuning);
    return;
  }
  tuning.reasons.push_back(fmt::format(
      "lambda = {} from {} seeds of {} steps, K = {} and {}",
      with_error(calibration.fit.lambda, calibration.fit.lambda_error, 3), calibration.triples,
      calibration.steps, calibration.k, kCalibrationRatio * calibration.k));
  if (calibration.fit.lockstep_factor) {
    tuning.reasons.push_back(fmt::format(
        "synchronising every step needs {} times the steps of K = {}, measured in the same runs",
        with_error(*calibration.fit.lockstep_factor, calibration.fit.lockstep_error, 2),
        calibration.k));
  } else {
    warn_of_lockstep(tuning);
  }
  tell_recipes(tuning);
  if (tuning.steps > 8 * calibration.steps) {
    tuning.warnings.push_back(
        fmt::format("the calibration's runs had {} steps, the run has {}: lambda may change as "
                    "training goes on; give --calibrate more seconds",
                    calibration.steps, tuning.steps));
  }
}

// What a step with another inner optimizer takes was measured here; on GPUs it may be another
// share.
void judge_inner(Tuning& tuning, const diloco::tuner::Row& row) {
  const std::string price = price_of_adamw(tuning.probe.parameters, row.inner, row.k);
  if (!price.empty() && !calibrated(tuning))
    tuning.warnings.push_back("the table leaves out what K costs AdamW in loss: " + price +
                              to_calibrate(tuning));
  if (row.inner == tuning.configured.inner) return;
  tuning.reasons.push_back("a step with " + row.inner + " takes " +
                           format_fixed(row.inner_step_ratio, 2) + " times as long as one with " +
                           tuning.configured.inner + ", measured on this machine");
}

bool calibrated_as_recommended(const Tuning& tuning) {
  const diloco::tuner::Row& row = tuning.recommended();
  return row.price && row.overlap_priced;
}

// Steps that a codec costs are not in the table, only the time and bytes that it saves.
void judge_codec(Tuning& tuning, const diloco::tuner::Row& row) {
  const bool against_dense =
      std::ranges::any_of(tuning.forecast.rows,
                          [](const diloco::tuner::Row& other) { return !is_sparse(other.codec); });
  if (is_sparse(row.codec) && against_dense && !row.price) {
    tuning.warnings.push_back(
        "this assumes that a sparse codec needs no more steps than a dense one, as published for "
        "large models. A model of 0.2M parameters ended 6 to 15 % above int8 at equal tokens with "
        "3 % density (docs/choosing-k.md): compare both in short runs");
  }
  if (calibrated(tuning) && !calibrated_as_recommended(tuning)) {
    tuning.warnings.push_back("lambda was calibrated with " + tuning.configured.codec + ", " +
                              std::string(diloco::tuner::to_string(tuning.configured_variant)) +
                              ", not with the recommended codec and overlap");
  }
}

// Bytes are not money everywhere, and it changes what the run can do: it is for the user to choose.
void judge_exchange(Tuning& tuning, const diloco::tuner::Row& row) {
  using diloco::ExchangeKind;
  const bool shards =
      row.exchange == ExchangeKind::sharded ||
      (row.exchange == ExchangeKind::automatic && tuning.regions.size() >= diloco::kShardedFrom);
  if (shards && tuning.exchange == ExchangeKind::full) {
    tuning.warnings.emplace_back(
        "sharded rounds round each sum once more; how many steps that costs was not measured. A "
        "contribution that misses its round is not listed later (docs/sharded-rounds.md, "
        "\"What is different\")");
  }
  const bool may_shard = tuning.exchange == ExchangeKind::full && !is_sparse(row.codec) &&
                         row.overlap.variant != diloco::tuner::Variant::eager;
  const bool compared = std::ranges::any_of(
      tuning.forecast.rows, [](const auto& other) { return other.exchange != ExchangeKind::full; });
  if (!may_shard || compared || tuning.regions.size() < diloco::kShardedFrom) return;
  tuning.warnings.push_back(fmt::format(
      "each region sends its payload to {} others; with sync.exchange = \"auto\" it sends some 3 "
      "payloads a round (docs/sharded-rounds.md). To compare: --exchange full "
      "--exchange sharded",
      tuning.regions.size() - 1));
}

void judge_against_lockstep(Tuning& tuning) {
  if (tuning.synchronous_time_s() >= tuning.recommended().time_to_loss_s) return;
  tuning.warnings.push_back("synchronising every step is predicted to be quicker: " +
                            format_duration(tuning.synchronous_time_s()) + " against " +
                            format_duration(tuning.recommended().time_to_loss_s) +
                            ". Over links this fast, a large K saves traffic, but no time");
}

void judge_choice(Tuning& tuning) {
  const diloco::tuner::Row& row = tuning.recommended();
  judge_against_lockstep(tuning);
  if (row.participation < 0.995) {
    tuning.warnings.push_back(
        "only " + percent(row.participation) +
        " of the contributions are listed in their own round; a longer sync.grace_min_s (and "
        "sync.grace_max_s) waits for the others");
  }
  if (tuning.steps % row.k != 0) {
    tuning.warnings.push_back(
        fmt::format("train.steps = {} is not a multiple of K = {}; set it to {}", tuning.steps,
                    row.k, (tuning.steps / row.k + 1) * row.k));
  }
  if (calibrated(tuning)) {
    const double low = tuning.calibration.k, high = low * kCalibrationRatio;
    if (row.k < low / 2 || row.k > 2 * high) {
      tuning.warnings.push_back(
          fmt::format("K = {} is far outside of the calibrated range, {} to {}", row.k,
                      format_fixed(low, 0), format_fixed(high, 0)));
    }
  }
  if (!row.overlap_priced && (row.overlap.variant == diloco::tuner::Variant::eager ||
                              row.overlap.variant == diloco::tuner::Variant::delayed)) {
    tuning.warnings.push_back(
        "the price of applying an exchange late is that of a published run "
        "of 500M parameters with K = 30, not measured here");
  }
  judge_inner(tuning, row);
  judge_codec(tuning, row);
  judge_exchange(tuning, row);
  const auto edge = [&](auto compare) {
    return std::ranges::none_of(tuning.forecast.rows, [&](const diloco::tuner::Row& other) {
      return compare(other.k, row.k);
    });
  };
  if (edge(std::greater<>()) || edge(std::less<>())) {
    tuning.warnings.push_back(
        "the recommended K is at the edge of those tried; try others with "
        "--k");
  }
}

// Why this one and not the next best.
void judge_runner_up(Tuning& tuning) {
  const diloco::tuner::Row& best = tuning.recommended();
  const diloco::tuner::Row* next = nullptr;
  for (const diloco::tuner::Row& row : tuning.forecast.rows) {
    if (&row == &best || !diloco::tuner::counts(row)) continue;
    if (next == nullptr || row.time_to_loss_s < next->time_to_loss_s) next = &row;
  }
  if (next == nullptr || best.time_to_loss_s <= 0) return;
  const double later = next->time_to_loss_s / best.time_to_loss_s - 1;
  tuning.reasons.push_back(fmt::format(
      "the runner-up, K = {}, {}, reaches the loss {}: it computes for {} of the time, the "
      "recommended one for {}",
      next->k, describe(*next),
      later > 0 ? percent(later) + " later"
                : percent(-later) + " sooner, which is too little to count: among equals, less "
                                    "overlap is preferred, then full exchanges, then more bits",
      percent(next->utilisation), percent(best.utilisation)));
}

struct Comparison {
  std::size_t measured = 0;
  double worst = 0;  // share that predicted round times are off
  bool recommended = false;
};

Comparison compare(const Tuning& tuning) {
  Comparison out;
  for (const diloco::tuner::Row& row : tuning.forecast.rows) {
    if (!row.measured_round_s || !row.predicted_as_measured_s) continue;
    ++out.measured;
    out.worst =
        std::max(out.worst, std::abs(*row.predicted_as_measured_s / *row.measured_round_s - 1));
  }
  out.recommended = tuning.recommendation && tuning.recommended().predicted_as_measured_s;
  return out;
}

void judge_probe(Tuning& tuning) {
  const Probe& probe = tuning.probe;
  if (probe.steps == 0 || probe.step_deviation_s <= kNoisy * probe.step_s) return;
  tuning.warnings.push_back(
      "steps of the probe took " + with_error(1e3 * probe.step_s, 1e3 * probe.step_deviation_s, 1) +
      " ms: something else uses this host, and all predictions depend on that figure. Repeat it on "
      "a quiet host, or with more seconds (--probe), or give the time (--step-ms)");
}

void judge_times(Tuning& tuning, const Comparison& comparison) {
  if (tuning.recorded) {
    tuning.reasons.emplace_back(
        tuning.probe.timed_steps
            ? "the time of a step is that of the recorded run, whose steps were timed waits"
            : "the time of a step is that of the recorded run");
  } else if (tuning.probe.steps == 0) {
    tuning.reasons.push_back("the time of a step was given, not measured");
  } else if (tuning.probe.timed_steps) {
    tuning.reasons.push_back("steps are timed waits");
  }
  if (tuning.fitted_to_recording) {
    tuning.reasons.push_back(
        "round times are predicted from the recorded ones; no other choice was measured");
  } else if (comparison.measured == 0) {
    tuning.reasons.push_back("round times are predicted; none was measured");
  } else {
    tuning.reasons.push_back(
        fmt::format("round times: {} measured on real processes, predicted within {}",
                    comparison.measured, percent(comparison.worst)));
  }
  if (comparison.worst > kCloseEnough) {
    tuning.warnings.push_back("predicted round times are up to " + percent(comparison.worst) +
                              " off the measured ones");
  }
}

}  // namespace

void judge(Tuning& tuning) {
  judge_probe(tuning);
  judge_price(tuning);
  const Comparison comparison = compare(tuning);
  judge_times(tuning, comparison);
  if (!tuning.recommendation) {
    tuning.confidence = "none";
    tuning.warnings.push_back(
        "no choice completes its rounds with all regions; check the links and "
        "sync.grace_min_s");
    return;
  }
  judge_choice(tuning);
  judge_runner_up(tuning);
  const bool priced =
      calibrated(tuning) && tuning.calibration.triples >= 3 && calibrated_as_recommended(tuning);
  const bool timed = comparison.recommended && comparison.worst <= kCloseEnough;
  tuning.confidence = priced && timed ? "high" : priced || timed ? "medium" : "low";
}

}  // namespace causeway::run
