#include "apps/run/learning/recipe.h"

#include <algorithm>

#include "apps/run/config/config_schema.h"
#include "apps/run/config/suitable_outer.h"
#include "apps/run/page/format.h"
#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "diloco/maths/layout.h"
#include "intra/model/model.h"
#include "intra/step/muon.h"

namespace causeway::run {
namespace {

using Optimizer = intra::InnerOptions::Optimizer;

constexpr float kMuonRate = 2;           // of AdamW's (bench/RESULTS.md, "Overlap")
constexpr double kBitsWithFeedback = 6;  // below: what compression drops must be kept

std::string name_of(Optimizer optimizer) {
  return optimizer == Optimizer::muon ? "muon" : "adamw";
}

double bits_per_value(const std::string& spec) {
  const auto codec = compression::make_codec(spec);
  return 8.0 * static_cast<double>(codec->encoded_bytes_max(compression::kChunk)) /
         compression::kChunk;
}

}  // namespace

Recipe recipe_of(const Config& config) {
  return {.inner = config.built_in_trainer() ? name_of(config.inner.optimizer) : "",
          .codec = config.codec.matrix};
}

std::string to_string(const Recipe& recipe) {
  const std::string way = recipe.inner + " with " + recipe.codec;
  if (!recipe.overlap) return way;
  return way + ", " + std::string(diloco::tuner::to_string(recipe.overlap->variant));
}

Config with(Config config, const Recipe& recipe) {
  const Recipe own = recipe_of(config);
  if (recipe.overlap) {
    config.overlap.variant = recipe.overlap->variant;
    config.overlap.fragments = recipe.overlap->fragments;
    if (recipe.overlap->variant == diloco::tuner::Variant::streaming)
      config.sync.overlap_steps = recipe.overlap->overlap_steps;
  }
  if (recipe.inner == own.inner && recipe.codec == own.codec) return config;
  if (recipe.inner != own.inner) {
    const bool muon = recipe.inner == name_of(Optimizer::muon);
    config.inner.optimizer = muon ? Optimizer::muon : Optimizer::adamw;
    config.inner.lr *= muon ? kMuonRate : 1 / kMuonRate;
  }
  if (recipe.codec != own.codec) {
    config.codec.matrix = recipe.codec;
    config.codec.feedback =
        config.codec.feedback || bits_per_value(recipe.codec) < kBitsWithFeedback;
  }
  take_suitable_outer(config);
  return config;
}

double muon_share(const Config& config) {
  if (!config.built_in_trainer()) return 0;
  std::uint32_t workers = 1;  // of the region whose workers have the fewest tokens
  for (const RegionConfig& region : config.regions) workers = std::max(workers, region.workers);
  const diloco::Layout layout(intra::parameter_tensors(config.model));
  const double shared_by = config.train.shard_optimizer ? workers : 1;
  const double muon = intra::Muon::flops(config.inner, layout) / shared_by;
  const double tokens = double(config.train.batch) * double(config.model.context) / workers;
  return muon / (muon + tokens * intra::flops_per_token(config.model));
}

std::string muon_concern(const Config& config) {
  constexpr double kWorthSaying = 0.1;
  const double share = muon_share(config);
  if (share <= kWorthSaying) return {};
  return "inner.optimizer: Muon's iterations are " + format_fixed(100 * share, 0) +
         " % of a step's arithmetic, as a step has only " +
         format_count(static_cast<std::uint64_t>(config.train.batch * config.model.context)) +
         " tokens in a region; a larger train.batch and fewer steps cost less (docs/learning.md)";
}

std::string price_of_adamw(std::uint64_t parameters, const std::string& inner, double k) {
  constexpr double kFarApart = 25;  // steps, the fewest in docs/learning.md, "The inner optimizer"
  if (double(parameters) >= kPricedFrom || inner != name_of(Optimizer::adamw) || k < kFarApart)
    return {};
  return "small models ended 2 to 9 % higher with K of 25 to 100, at equal tokens. With Muon they "
         "ended lower than with AdamW that synchronised every step (docs/learning.md)";
}

std::vector<std::string> concerns(const Config& config) {
  const std::uint64_t parameters =
      diloco::Layout(intra::parameter_tensors(config.model)).parameter_count();
  const bool alone = config.regions.size() < 2;  // then K costs nothing
  std::string price =
      alone ? "" : price_of_adamw(parameters, recipe_of(config).inner, config.train.k);
  if (!price.empty())
    price = "inner.optimizer: a large K costs AdamW loss: " + price +
            ". `causeway tune` compares both on this model";
  std::vector<std::string> found{outer_concern(config), muon_concern(config), price};
  std::erase(found, "");
  return found;
}

std::vector<std::string> settings_between(const Config& from, const Config& to) {
  std::vector<std::string> lines;
  for (const Key<Config>& key : config_keys()) {
    if (from.outer_chosen && key.name.starts_with("outer.")) continue;
    if (key.get(from) != key.get(to)) lines.push_back(key.name + " = " + format_value(key.get(to)));
  }
  return lines;
}

}  // namespace causeway::run
