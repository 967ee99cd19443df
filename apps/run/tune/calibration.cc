#include "apps/run/tune/calibration.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "apps/run/page/format.h"
#include "apps/run/tune/loss_table.h"
#include "apps/run/tune/side_by_side.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

constexpr double kUnitsMin = 2;  // of 8K steps in a trial: four rounds with 4K
constexpr std::size_t kSeedsWanted = 3;
// A seed takes T + T + T/2 steps as configured, T to synchronise every step, and T for each trial
// of another recipe.
constexpr double kStepsPerTriple = 3.5;

std::array<LossKey, 2> pair(const LossKey& base) {
  return {base, {kCalibrationRatio * base.k, base.steps, base.seed}};
}

LossKey with_half_the_tokens(const LossKey& base) {
  return {base.k, base.steps / 2, base.seed};
}

class Calibrator {
 public:
  Calibrator(const Config& config, const CalibrationOptions& options,
             const std::function<void(const std::string&)>& note)
      : config_(config), options_(options), note_(note), configured_(config, options.cache) {
    const std::string codec = recipe_of(config).codec;
    for (const Recipe& recipe : options.recipes) {
      const bool with_rare = !recipe.overlap || recipe.codec == codec;
      others_.push_back({recipe, with_rare, LossTable(with(config, recipe), options.cache)});
    }
  }

  Calibration run() {
    const std::uint64_t steps = steps_for_budget();
    const auto begin = std::chrono::steady_clock::now();
    std::size_t made = 0;
    for (std::uint64_t seed = config_.train.seed; steps > 0 && made < kSeedsWanted; ++seed) {
      const LossKey base{config_.train.k, steps, seed};
      if (complete(base)) continue;
      const double spent_s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (made > 0 && spent_s + steps_per_seed() * seconds_of(steps) > options_.budget_s) break;
      measure(base);
      ++made;
    }
    return summarize();
  }

 private:
  struct Other {
    Recipe recipe;
    bool with_rare;  // with 4K too, or else only with K
    LossTable losses;

    std::vector<LossKey> keys(const LossKey& base) const {
      const auto [near, rare] = pair(base);
      return with_rare ? std::vector{near, rare} : std::vector{near};
    }
    bool holds(const LossKey& base) const {
      return std::ranges::all_of(
          keys(base), [this](const LossKey& key) { return losses.find(key).has_value(); });
    }
  };

  // How long its trials keep this host: their steps, divided by how many run at once.
  double steps_per_seed() const {
    double steps = kStepsPerTriple;
    for (const Other& other : others_) steps += double(other.keys({}).size());
    return options_.at_once == 1 ? steps : std::ceil(steps / double(options_.at_once));
  }
  // Of one trial: its regions step in turn.
  double seconds_of(std::uint64_t steps) const {
    return double(steps) * options_.step_s * double(config_.regions.size());
  }

  // T: all seeds within the budget; 0 without one.
  std::uint64_t steps_for_budget() const {
    const std::uint64_t unit = 2ULL * kCalibrationRatio * config_.train.k;
    const double per_unit_s = kSeedsWanted * steps_per_seed() * seconds_of(unit);
    if (options_.budget_s <= 0 || per_unit_s <= 0) return 0;
    const std::uint64_t least = kUnitsMin * unit;
    if (config_.train.steps < least)
      throw ConfigError(
          fmt::format("--calibrate: its runs have at least {} steps with K = {}, and train.steps "
                      "is {}: raise it, or lower train.k",
                      least, config_.train.k, config_.train.steps));
    if (options_.budget_s < kUnitsMin * per_unit_s)
      throw ConfigError("--calibrate " + format_fixed(options_.budget_s, 0) +
                        ": that is too short for three runs of each kind; give it " +
                        format_fixed(std::ceil(kUnitsMin * per_unit_s), 0) +
                        " or more, or lower train.k");
    const double units =
        std::min(options_.budget_s / per_unit_s, double(config_.train.steps) / double(unit));
    // A power of two, so that the next calibration adds to this one.
    return unit * std::bit_floor(static_cast<std::uint64_t>(units));
  }

  bool complete(const LossKey& base) const {
    return triple(base) &&
           std::ranges::all_of(others_, [&](const Other& other) { return other.holds(base); });
  }

  void measure(const LossKey& base) {
    std::vector<std::function<void()>> trials;
    const auto add = [&](LossTable& losses, const LossKey& key, const std::string& how) {
      if (!losses.find(key))
        trials.emplace_back([this, &losses, key, how] { try_out(losses, key, how); });
    };
    for (const LossKey& key : pair(base)) add(configured_, key, "as configured");
    add(configured_, base.lockstep(), "synchronised every step");
    for (Other& other : others_) {
      for (const LossKey& key : other.keys(base)) add(other.losses, key, to_string(other.recipe));
    }
    add(configured_, with_half_the_tokens(base), "as configured");  // the shortest at the end
    run_side_by_side(options_.at_once, trials);
  }
  void try_out(LossTable& losses, const LossKey& key, const std::string& how) {
    {
      const std::lock_guard lock(mutex_);
      note_(fmt::format("calibrating: {}{}, {} steps, seed {}", how,
                        key.k > 0 ? fmt::format(", K = {}", key.k) : "", key.steps, key.seed));
    }
    const double loss = losses.train(key);
    const std::lock_guard lock(mutex_);
    losses.keep(key, loss);
  }

  std::optional<tuner::PairedLosses> triple(const LossKey& base) const {
    const auto [own, rare] = pair(base);
    const auto base_loss = configured_.find(own), rare_loss = configured_.find(rare),
               half_loss = configured_.find(with_half_the_tokens(base));
    if (!base_loss || !rare_loss || !half_loss) return std::nullopt;
    return tuner::PairedLosses{*base_loss, *rare_loss, *half_loss,
                               configured_.find(base.lockstep())};
  }

  // The longest runs count alone: shorter ones are further from where training ends.
  std::vector<LossKey> longest() const {
    std::vector<LossKey> found;
    for (const auto& [key, loss] : configured_.all()) {
      if (key.k != config_.train.k || !triple(key)) continue;
      if (!found.empty() && key.steps > found.front().steps) found.clear();
      if (found.empty() || key.steps == found.front().steps) found.push_back(key);
    }
    return found;
  }

  Calibration summarize() const {
    Calibration out;
    out.k = config_.train.k;
    const std::vector<LossKey> bases = longest();
    out.triples = bases.size();
    if (bases.empty()) return out;
    out.steps = bases.front().steps;
    std::vector<tuner::PairedLosses> losses;
    for (const LossKey& base : bases) losses.push_back(*triple(base));
    out.fit = tuner::fit_lambda(losses, kCalibrationRatio, 2);
    if (!out.known()) return out;
    const tuner::StatisticalPrice own{.lambda = std::max(0.0, out.fit.lambda),
                                      .lambda_error = out.fit.lambda_error,
                                      .k_reference = double(out.k),
                                      .lockstep_factor = out.fit.lockstep_factor.value_or(1)};
    out.prices.emplace_back(recipe_of(config_), own);
    for (const Other& other : others_) {
      if (const auto price = price_against(own, other, bases, out.fit.b))
        out.prices.emplace_back(other.recipe, *price);
    }
    return out;
  }

  // Seed for seed, as noise of the start and of the data's order is the same then.
  std::optional<tuner::StatisticalPrice> price_against(const tuner::StatisticalPrice& own,
                                                       const Other& other,
                                                       const std::vector<LossKey>& bases,
                                                       double b) const {
    std::vector<tuner::RecipeLosses> losses;
    for (const LossKey& base : bases) {
      if (!other.holds(base)) continue;
      const auto keys = other.keys(base);
      losses.push_back({*configured_.find(keys.front()), *other.losses.find(keys.front()),
                        *other.losses.find(keys.back())});
    }
    if (losses.empty()) return std::nullopt;
    return tuner::price_of_recipe(own, losses, kCalibrationRatio, b);
  }

  const Config& config_;
  const CalibrationOptions& options_;
  const std::function<void(const std::string&)>& note_;
  LossTable configured_;
  std::vector<Other> others_;
  std::mutex mutex_;  // guards the tables and note_ while trials run
};

}  // namespace

const tuner::StatisticalPrice* Calibration::price_of(const Recipe& recipe) const {
  const auto found = std::ranges::find(prices, recipe, [](const auto& one) { return one.first; });
  return found == prices.end() ? nullptr : &found->second;
}

std::optional<tuner::StatisticalPrice> Calibration::price_of(const Recipe& recipe,
                                                             tuner::Variant variant) const {
  const auto late_with = [&](const std::string& codec) -> const tuner::StatisticalPrice* {
    const auto late = std::ranges::find_if(prices, [&](const auto& one) {
      return one.first.inner == recipe.inner && one.first.codec == codec && one.first.overlap &&
             one.first.overlap->variant == variant;
    });
    return late == prices.end() ? nullptr : &late->second;
  };
  if (prices.empty()) return std::nullopt;
  const std::string& configured = prices.front().first.codec;
  const auto* const own = price_of(recipe);
  const auto* const late = late_with(configured);
  const auto* const in_time = price_of({recipe.inner, configured});
  if (own == nullptr || late == nullptr || in_time == nullptr) return std::nullopt;
  const auto squared_share = [](const tuner::StatisticalPrice& price) {
    const double share = price.steps_error / price.steps;
    return share * share;
  };
  tuner::StatisticalPrice price = *own;
  price.lambda = std::max(0.0, own->lambda + late->lambda - in_time->lambda);
  if (const auto* const measured = late_with(recipe.codec)) {
    price.steps = measured->steps;
    price.steps_error = measured->steps_error;
  } else {
    price.steps *= late->steps / in_time->steps;
    price.steps_error = price.steps * std::sqrt(squared_share(*own) + squared_share(*late));
  }
  return price;
}

Calibration calibrate(const Config& config, const CalibrationOptions& options,
                      const std::function<void(const std::string&)>& note) {
  return Calibrator(config, options, note).run();
}

}  // namespace causeway::run
