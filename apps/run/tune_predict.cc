#include "apps/run/tune_predict.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <toml++/toml.h>

#include "apps/run/config_source.h"
#include "apps/run/tune_links.h"
#include "apps/run/tune_world.h"
#include "inter/topology.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

constexpr std::uint32_t kLayersPerFragment = 3;  // Streaming DiLoCo, arXiv 2501.18512
constexpr std::uint32_t kOverlapStepsMax = 5;    // the same
// What a rehearsal may take beyond its compute before it counts as stuck, in exchanges.
constexpr double kPatience = 20;

inter::PlanInput plan_input(const wan_sim::Scenario& links, const std::vector<std::string>& regions,
                            double payload_bytes) {
  inter::PlanInput input;
  input.links = link_matrix(links, regions);
  for (const std::string& region : regions) {
    input.payload_bytes[region] = static_cast<std::uint64_t>(payload_bytes);
  }
  return input;
}

class Predictor {
 public:
  explicit Predictor(const PredictInput& input) : in_(input), regions_(names_of(input.config)) {}

  Forecast run(const std::function<void(double)>& progress) {
    Forecast out;
    compare_topologies(out);
    price_synchronous(out);
    const std::vector<tuner::Row> choices = grid();
    for (const tuner::Row& choice : choices) {
      out.rows.push_back(rehearse(choice));
      progress(double(out.rows.size()) / double(choices.size()));
    }
    return out;
  }

 private:
  double step_s(const std::string& region) const {
    const auto found = in_.step_s.find(region);
    return found == in_.step_s.end() ? in_.probe.step_s : found->second;
  }
  double slowest_step_s() const {
    double slowest_s = 0;
    for (const std::string& region : regions_) slowest_s = std::max(slowest_s, step_s(region));
    return slowest_s;
  }

  void price_synchronous(Forecast& out) const {
    const Ring ring = ring_all_reduce(link_matrix(in_.links, regions_), regions_,
                                      sizeof(float) * double(in_.probe.parameters));
    out.synchronous_step_s = slowest_step_s() + ring.seconds;
    for (std::size_t i = 0; i < ring.order.size(); ++i) {
      const std::string& next = ring.order[(i + 1) % ring.order.size()];
      out.synchronous_cost += in_.prices.of(ring.order[i], next, ring.bytes_per_hop);
    }
  }

  void compare_topologies(Forecast& out) const {
    const auto input =
        plan_input(in_.links, regions_, double(in_.probe.codecs.front().payload_bytes));
    const inter::Plan direct = inter::plan_direct(input), best = inter::choose_plan(input);
    out.seconds = direct.predicted_s;
    out.topology = inter::describe(best);
    out.topology_gain_s = direct.predicted_s - best.predicted_s;
  }

  tuner::Overlap overlap_of(const CodecProbe& codec, tuner::Variant variant,
                            std::uint32_t k) const {
    if (variant != tuner::Variant::streaming) return {variant};
    const auto layers = static_cast<std::uint32_t>(in_.config.model.layers);
    std::uint32_t fragments = in_.grid.fragments;
    if (fragments == 0) fragments = std::max(2U, layers / kLayersPerFragment);
    std::uint32_t steps = in_.grid.overlap_steps;
    if (steps == 0) {
      const double one_s = exchange_s(in_.links, regions_, double(codec.payload_bytes) / fragments);
      steps = std::clamp(static_cast<std::uint32_t>(tuner::hiding_k(slowest_step_s(), one_s)), 1U,
                         kOverlapStepsMax);
    }
    return {variant, fragments, std::min(steps, k / fragments)};
  }

  // What can be configured of it.
  std::vector<tuner::Row> grid() const {
    std::vector<std::optional<inter::Shape>> topologies = in_.grid.topologies;
    if (topologies.empty()) topologies = {in_.config.links.topology};
    std::vector<tuner::Row> rows;
    for (const CodecProbe& codec : in_.probe.codecs) {
      for (const tuner::Variant variant : in_.grid.variants) {
        for (const auto& topology : topologies) {
          for (const std::uint32_t k : in_.grid.ks) {
            const tuner::Overlap overlap = overlap_of(codec, variant, k);
            if (k % overlap.fragments != 0) continue;
            rows.push_back({.k = k,
                            .codec = codec.codec,
                            .bits_per_parameter = codec.bits_per_parameter,
                            .overlap = overlap,
                            .topology = topology});
          }
        }
      }
    }
    return rows;
  }

  tuner::Row rehearse(tuner::Row row) const {
    const CodecProbe& codec = *std::ranges::find(in_.probe.codecs, row.codec, &CodecProbe::codec);
    const tuner::RehearsalOptions options = options_for(codec, row);
    const auto world = make_virtual_world(in_.links, row.topology);
    const tuner::RehearsalResult result = tuner::rehearse(*world, options);
    row.complete = result.complete;
    row.round_s = result.round_s;
    row.round_s_p95 = result.round_s_p95;
    row.utilisation = result.utilisation;
    row.participation = result.participation;
    row.sent_bytes = result.sent_bytes;
    row.cost_per_round = cost_of(double(codec.payload_bytes));
    return row;
  }

  tuner::RehearsalOptions options_for(const CodecProbe& codec, const tuner::Row& row) const {
    tuner::RehearsalOptions options;
    const double spread = in_.probe.step_s > 0 ? in_.probe.step_deviation_s / in_.probe.step_s : 0;
    for (const std::string& region : regions_) {
      options.regions[region] = {.step_s = step_s(region),
                                 .step_deviation_s = spread * step_s(region),
                                 .encode_s = codec.encode_s,
                                 .apply_s = codec.apply_s,
                                 .store_s = codec.store_s,
                                 .save_s = in_.probe.save_s};
    }
    options.founder = in_.config.sync.founder;
    options.k = row.k;
    options.overlap = row.overlap;
    options.payload_bytes = codec.payload_bytes;
    options.rounds = in_.rounds;
    options.measured_s_min = in_.measured_s_min;
    options.protocol = rehearsed_protocol(in_.config);
    options.seed = in_.config.train.seed;
    const double round_s =
        row.k * slowest_step_s() + codec.encode_s + codec.apply_s + codec.store_s + 1 +
        kPatience * (1 + exchange_s(in_.links, regions_, double(codec.payload_bytes)));
    options.limit_s = 600 + (options.rounds + options.rounds_before) * round_s +
                      kPatience * options.measured_s_min;
    return options;
  }

  double cost_of(double payload_bytes) const {
    double cost = 0;
    for (const std::string& from : regions_) {
      for (const std::string& to : regions_)
        if (from != to) cost += in_.prices.of(from, to, payload_bytes);
    }
    return cost;
  }

  const PredictInput& in_;
  std::vector<std::string> regions_;
};

void add_price(const std::filesystem::path& file, const toml::table* price,
               const std::vector<std::string>& known, Prices& prices) {
  const auto region = [&](const char* key) {
    const auto name = price ? (*price)[key].value_or(std::string()) : std::string();
    if (name.empty() || std::ranges::find(known, name) != known.end()) return name;
    throw ConfigError(file.string() + ": [[price]] " + key + " = \"" + name +
                      "\" is neither a region of the run nor of the links");
  };
  const std::string from = region("from"), to = region("to");
  const auto per_gb = price ? (*price)["per_gb"].value<double>() : std::nullopt;
  if (from.empty() || to.empty() || !per_gb || !(*per_gb >= 0))
    throw ConfigError(file.string() + ": a [[price]] needs from, to and per_gb");
  prices.per_gb[{from, to}] = *per_gb;
}

}  // namespace

std::vector<std::string> not_rehearsed(const Config& config) {
  std::vector<std::string> warnings;
  const bool own_overlap = std::ranges::any_of(
      config.regions, [](const RegionConfig& region) { return region.overlap_steps >= 0; });
  if (own_overlap) {
    warnings.emplace_back(
        "regions.overlap_steps is left out: every region is taken to overlap as the table says");
  }
  if (config.sync.speed_adaptive_k) {
    warnings.emplace_back(
        "sync.speed_adaptive_k is left out: slow regions are taken to do all K steps");
  }
  return warnings;
}

std::vector<std::string> names_of(const Config& config) {
  std::vector<std::string> names;
  for (const RegionConfig& region : config.regions) names.push_back(region.name);
  return names;
}

diloco::ProtocolOptions rehearsed_protocol(const Config& config) {
  diloco::ProtocolOptions options;
  options.contributions_min = config.sync.contributions_min;
  options.staleness_max = config.sync.staleness_max;
  options.grace_min = config.sync.grace_min;
  options.grace_max = config.sync.grace_max;
  options.election = config.sync.election_timeout;
  return options;
}

double exchange_s(const wan_sim::Scenario& links, const std::vector<std::string>& regions,
                  double payload_bytes) {
  return inter::plan_direct(plan_input(links, regions, payload_bytes)).predicted_s;
}

std::vector<std::uint32_t> k_grid(std::uint32_t k, double step_s, double exchange_s) {
  const double best = tuner::optimal_k(exchange_s / step_s, {});
  const auto centre = static_cast<int>(std::lround(std::log2(best / k)));
  std::set<std::uint32_t> ks;
  for (int power = std::min(centre - 3, -1); power <= std::max(centre + 3, 1); ++power) {
    const double value = std::round(k * std::exp2(power));
    if (value >= 1 && value <= 1e6) ks.insert(static_cast<std::uint32_t>(value));
  }
  return {ks.begin(), ks.end()};
}

Forecast predict(const PredictInput& input, const std::function<void(double)>& progress) {
  return Predictor(input).run(progress);
}

double Prices::of(const std::string& from, const std::string& to, double bytes) const {
  const auto found = per_gb.find({from, to});
  return bytes / 1e9 * (found == per_gb.end() ? otherwise : found->second);
}

Prices load_prices(const std::filesystem::path& file, const std::vector<std::string>& known) {
  Prices prices;
  prices.given = true;
  try {
    const toml::table table = toml::parse(read_config(file));
    prices.otherwise = table["default_per_gb"].value_or(0.0);
    if (const toml::array* list = table["price"].as_array()) {
      for (const toml::node& node : *list) add_price(file, node.as_table(), known, prices);
    }
  } catch (const toml::parse_error& error) {
    throw ConfigError(file.string() + ":" + std::to_string(error.source().begin.line) + ": " +
                      std::string(error.description()));
  }
  return prices;
}

}  // namespace causeway::run
