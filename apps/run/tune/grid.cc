#include "apps/run/tune/grid.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/run/learning/recipe.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

constexpr std::uint32_t kLayersPerFragment = 3;  // Streaming DiLoCo, arXiv 2501.18512
constexpr std::uint32_t kOverlapStepsMax = 5;    // the same

std::vector<tuner::Variant> variants_of(const Grid& grid) {
  if (!grid.variants.empty()) return grid.variants;
  return {tuner::Variant::synchronous, tuner::Variant::streaming, tuner::Variant::eager};
}

std::uint32_t fragments_of(const Grid& grid, const Config& config, tuner::Variant variant) {
  if (variant != tuner::Variant::streaming) return 1;
  if (grid.fragments > 0) return grid.fragments;
  return std::max(2U, static_cast<std::uint32_t>(config.model.layers) / kLayersPerFragment);
}

class Chooser {
 public:
  Chooser(Grid grid, const PredictInput& input)
      : grid_(std::move(grid)),
        in_(input),
        regions_(names_of(input.config)),
        ks_chosen_(grid_.ks.empty()) {
    grid_.variants = without_repeats(variants_of(grid_));
    if (grid_.topologies.empty()) grid_.topologies = {in_.config.links.topology};
    grid_.topologies = without_repeats(grid_.topologies);
    if (grid_.exchanges.empty()) grid_.exchanges = {in_.config.sync.rules.exchange};
    if (ks_chosen_) {
      const double own_s = one_exchange_s(in_.probe.codecs.front(), 1);
      grid_.ks = k_grid(in_.config.train.k, in_.probe.step_s, own_s, in_.config.train.steps);
    }
  }

  Choices run() {
    for (const CodecProbe& codec : in_.probe.codecs) {
      for (const tuner::Variant variant : grid_.variants) {
        for (const auto& topology : grid_.topologies) {
          for (const diloco::ExchangeKind exchange : exchanges_of(codec, variant))
            add_line(codec, variant, topology, exchange);
        }
      }
    }
    warn_of_too_long();
    warn_of_indivisible();
    return std::move(out_);
  }

 private:
  double one_exchange_s(const CodecProbe& codec, std::uint32_t fragments) const {
    return exchange_s(in_.links, regions_, double(codec.payload_bytes) / fragments);
  }

  std::uint32_t overlap_steps(const CodecProbe& codec, const tuner::Overlap& overlap,
                              std::uint32_t k) const {
    if (overlap.variant != tuner::Variant::streaming) return 0;
    std::uint32_t steps = grid_.overlap_steps;
    if (steps == 0) {
      const double hiding =
          tuner::hiding_k(slowest_step_s(in_), one_exchange_s(codec, overlap.fragments));
      steps = static_cast<std::uint32_t>(std::clamp(hiding, 1.0, double(kOverlapStepsMax)));
    }
    return std::min(steps, k / overlap.fragments);
  }

  // What those that are tried come to with it. Sums of sparse payloads are dense: nobody wants them
  // who did not ask for them in the configuration.
  std::set<diloco::ExchangeKind> exchanges_of(const CodecProbe& codec,
                                              tuner::Variant variant) const {
    const bool sparse = has_sparse_codec(in_.config, codec.codec);
    if (sparse) return {exchange_with(in_.config.sync.rules.exchange, variant, sparse)};
    std::set<diloco::ExchangeKind> exchanges;
    for (const diloco::ExchangeKind asked : grid_.exchanges)
      exchanges.insert(exchange_with(asked, variant, sparse));
    return exchanges;
  }

  // Rows that differ in K, and in what must then be hidden.
  void add_line(const CodecProbe& codec, tuner::Variant variant,
                std::optional<inter::Shape> topology, diloco::ExchangeKind exchange) {
    const std::uint32_t fragments = fragments_of(grid_, in_.config, variant);
    std::set<std::uint32_t> ks;
    for (const std::uint32_t asked : grid_.ks) {
      const std::uint32_t k =
          ks_chosen_ ? usable_k(asked, fragments, in_.config.train.steps) : asked;
      if (!ks_chosen_ && k > in_.config.train.steps) {
        too_long_.insert(k);
        continue;
      }
      if (k % fragments != 0) {
        indivisible_.insert(k);
        continue;
      }
      if (!ks.insert(k).second) continue;
      tuner::Overlap overlap{variant, fragments, 0};
      overlap.overlap_steps = overlap_steps(codec, overlap, k);
      out_.rows.push_back({.k = k,
                           .codec = codec.codec,
                           .bits_per_parameter = codec.bits_per_parameter,
                           .overlap = overlap,
                           .topology = topology,
                           .exchange = exchange});
    }
  }

  static std::string list_of(const std::set<std::uint32_t>& numbers) {
    std::string list;
    for (const std::uint32_t number : numbers) inter::append_item(list, std::to_string(number));
    return list;
  }

  // The run would end before the first exchange, and a rehearsal of such rounds takes minutes.
  void warn_of_too_long() {
    if (too_long_.empty()) return;
    const std::string ks = list_of(too_long_), steps = std::to_string(in_.config.train.steps);
    if (out_.rows.empty() && indivisible_.empty()) {
      throw ConfigError("--k " + ks + ": a round would be longer than the run, which has " + steps +
                        " steps; give a smaller --k, or set train.steps");
    }
    out_.warnings.push_back("K = " + ks + " is left out: a round would be longer than the run, " +
                            "which has " + steps + " steps (train.steps)");
  }

  void warn_of_indivisible() {
    if (indivisible_.empty()) return;
    const std::string ks = list_of(indivisible_);
    const std::string fragments =
        std::to_string(fragments_of(grid_, in_.config, tuner::Variant::streaming));
    if (out_.rows.empty()) {
      throw ConfigError("--k " + ks + ": none is a multiple of the " + fragments +
                        " fragments of streaming; give another --k or --fragments");
    }
    out_.warnings.push_back("streaming is left out for K = " + ks +
                            ", which is not a multiple of its " + fragments + " fragments");
  }

  Grid grid_;
  const PredictInput& in_;
  std::vector<std::string> regions_;
  bool ks_chosen_;
  std::set<std::uint32_t> indivisible_, too_long_;
  Choices out_;
};

// "auto" stays where it comes to what the row has.
diloco::ExchangeKind exchange_set(const Config& config, const tuner::Row& row) {
  const diloco::ExchangeKind configured = config.sync.rules.exchange;
  const bool stays = configured == diloco::ExchangeKind::automatic &&
                     exchange_with(configured, row.overlap.variant,
                                   has_sparse_codec(config, row.codec)) == row.exchange;
  return stays ? configured : row.exchange;
}

}  // namespace

Config with_choice(const Config& configured, const tuner::Row& row) {
  Config config = with(configured, {row.inner, row.codec});
  config.train.k = row.k;
  config.overlap.variant = row.overlap.variant;
  config.overlap.fragments = row.overlap.fragments;
  if (row.overlap.variant == tuner::Variant::streaming)
    config.sync.overlap_steps = row.overlap.overlap_steps;
  config.links.topology = row.topology;
  config.sync.rules.exchange = exchange_set(configured, row);
  return config;
}

std::vector<tuner::Overlap> overlaps_of(const Grid& grid, const Config& config) {
  std::vector<tuner::Overlap> overlaps;
  for (const tuner::Variant variant : without_repeats(variants_of(grid))) {
    const std::uint32_t fragments = fragments_of(grid, config, variant);
    const std::uint32_t most = grid.overlap_steps > 0 ? grid.overlap_steps : kOverlapStepsMax;
    overlaps.push_back({variant, fragments, std::min(most, config.train.k / fragments)});
  }
  return overlaps;
}

Choices choices_of(const Grid& grid, const PredictInput& input) {
  return Chooser(grid, input).run();
}

std::vector<std::uint32_t> k_grid(std::uint32_t k, double step_s, double exchange_s,
                                  std::uint64_t steps) {
  const double best = tuner::optimal_k(exchange_s / step_s, {});
  const auto centre = static_cast<int>(std::lround(std::log2(best / k)));
  std::set<std::uint32_t> ks = {k};
  for (int power = std::min(centre - 3, -1); power <= std::max(centre + 3, 1); ++power) {
    const double value = std::round(k * std::exp2(power));
    if (value >= 1 && value <= std::min(1e6, double(steps)))
      ks.insert(static_cast<std::uint32_t>(value));
  }
  return {ks.begin(), ks.end()};
}

std::uint32_t usable_k(std::uint32_t k, std::uint32_t fragments, std::uint64_t steps) {
  for (std::uint32_t distance = 0; distance <= k / 5; ++distance) {
    for (const std::uint32_t near : {k - distance, k + distance}) {
      if (near > 0 && near % fragments == 0 && steps % near == 0) return near;
    }
  }
  return std::max(1U, (k + fragments / 2) / fragments) * fragments;
}

}  // namespace causeway::run
