#include "apps/run/tune/predict.h"

#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "apps/run/tune/links.h"
#include "diloco/log/membership.h"
#include "inter/route/topology.h"
#include "wan-sim/virtual/internet.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

// What a rehearsal may take beyond its compute before it counts as stuck, in exchanges.
constexpr double kPatience = 20;
// Hours of an exchange are not looked at every second: who waits for so long learns nothing by it.
constexpr double kPollsOfAnExchange = 20;

inter::PlanInput plan_input(const wan_sim::Scenario& links, const std::vector<std::string>& regions,
                            double payload_bytes) {
  inter::PlanInput input;
  input.links = link_matrix(links, regions);
  for (const std::string& region : regions) {
    input.payload_bytes[region] = static_cast<std::uint64_t>(payload_bytes);
  }
  for (const wan_sim::Host& host : links.hosts) {
    if (host.name == host.region) input.region_bytes_per_s[host.region] = host.rate_bytes_per_s;
  }
  return input;
}

double step_s(const PredictInput& input, const std::string& region) {
  const auto found = input.step_s.find(region);
  return found == input.step_s.end() ? input.probe.step_s : found->second;
}

class Predictor {
 public:
  explicit Predictor(const PredictInput& input) : in_(input), regions_(names_of(input.config)) {}

  Forecast run(std::vector<tuner::Row> choices) const {
    Forecast out;
    compare_topologies(out);
    price_synchronous(out);
    for (tuner::Row& choice : choices) out.rows.push_back(rehearse(std::move(choice)));
    return out;
  }

 private:
  void price_synchronous(Forecast& out) const {
    const Ring ring = ring_all_reduce(link_matrix(in_.links, regions_), regions_,
                                      sizeof(float) * double(in_.probe.parameters));
    out.synchronous_step_s = slowest_step_s(in_) + ring.seconds;
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
    const auto pairs = double(regions_.size() * (regions_.size() - 1));
    const bool full = row.exchange == diloco::ExchangeKind::full;
    row.cost_per_round = cost_of(full ? double(codec.payload_bytes) : result.sent_bytes / pairs);
    return row;
  }

  tuner::RehearsalOptions options_for(const CodecProbe& codec, const tuner::Row& row) const {
    tuner::RehearsalOptions options;
    const double spread = in_.probe.step_s > 0 ? in_.probe.step_deviation_s / in_.probe.step_s : 0;
    for (const std::string& region : regions_) {
      const double step = step_s(in_, region) * row.inner_step_ratio;
      options.regions[region] = {.step_s = step,
                                 .step_deviation_s = spread * step,
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
    options.protocol.exchange = row.exchange;
    options.seed = in_.config.train.seed;
    const double payload_s = exchange_s(in_.links, regions_, double(codec.payload_bytes));
    options.poll_s = std::max(1.0, payload_s / kPollsOfAnExchange);
    const double round_s = row.k * slowest_step_s(in_) * row.inner_step_ratio + codec.encode_s +
                           codec.apply_s + codec.store_s + 1 + kPatience * (1 + payload_s);
    options.limit_s = 600 + (options.rounds + options.rounds_before) * round_s +
                      kPatience * options.measured_s_min;
    return options;
  }

  // Of a round in which every region sends so much to every other one.
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

}  // namespace

std::vector<std::string> not_rehearsed(const Config& config) {
  std::vector<std::string> warnings;
  const bool own_overlap = std::ranges::any_of(
      config.regions, [](const RegionConfig& region) { return region.overlap_steps >= 0; });
  if (own_overlap) {
    warnings.emplace_back(
        "regions.overlap_steps is ignored: the prediction lets every region overlap as the table "
        "says");
  }
  if (config.sync.rules.speed_adaptive_k) {
    warnings.emplace_back(
        "sync.speed_adaptive_k is ignored: the prediction lets slow regions take all K steps");
  }
  return warnings;
}

// A witness is not rehearsed: only how few regions will do with it.
diloco::ProtocolOptions rehearsed_protocol(const Config& config) {
  diloco::ProtocolOptions options{config.sync.rules};
  if (options.contributions_min == 0 && !config.witness.name.empty()) {
    diloco::Membership members;
    for (const std::string& region : names_of(config))
      members = with(members, {.region = region, .incarnation = region});
    members = with(members, {.region = config.witness.name, .witness = true, .incarnation = "1"});
    options.contributions_min = members.most_of(members.region_count());
  }
  options.speed_adaptive_k = false;  // see not_rehearsed()
  return options;
}

double exchange_s(const wan_sim::Scenario& links, const std::vector<std::string>& regions,
                  double payload_bytes) {
  return inter::plan_direct(plan_input(links, regions, payload_bytes)).predicted_s;
}

double slowest_step_s(const PredictInput& input) {
  double slowest_s = 0;
  for (const std::string& region : names_of(input.config)) {
    slowest_s = std::max(slowest_s, step_s(input, region));
  }
  return slowest_s;
}

Forecast predict(const PredictInput& input, std::vector<tuner::Row> choices) {
  return Predictor(input).run(std::move(choices));
}

wan_sim::Scenario without_processes(wan_sim::Scenario scenario) {
  std::erase_if(scenario.timeline, [](const wan_sim::TimedAction& timed) {
    return std::holds_alternative<wan_sim::ProcessAction>(timed.action.what);
  });
  return scenario;
}

wan_sim::VirtualMode mode_for(const wan_sim::Scenario& scenario) {
  try {
    wan_sim::require_honoured(scenario, wan_sim::Engine::virtual_fluid);
    return wan_sim::VirtualMode::fluid;
  } catch (const std::system_error&) {
    return wan_sim::VirtualMode::chunks;
  }
}

namespace {

class VirtualWorld : public diloco::tuner::World {
 public:
  VirtualWorld(const wan_sim::Scenario& scenario, std::optional<inter::Shape> topology)
      : wan_(without_processes(scenario), {.mode = mode_for(scenario)}),
        internet_(wan_, {.topology = topology}) {}

  diloco::Time now() const override { return std::chrono::duration_cast<diloco::Time>(wan_.now()); }
  void after(diloco::Time delay, std::function<void()> event) override {
    wan_.after(delay, std::move(event));
  }
  bool step(diloco::Time limit) override {
    const auto longest = std::chrono::duration_cast<diloco::Time>(wan_sim::Time::max());
    return wan_.step(limit >= longest ? wan_sim::Time::max() : wan_sim::Time{limit});
  }

  std::unique_ptr<inter::Channel> start(const std::string& region, std::string greeting,
                                        inter::MeshHandler& handler) override {
    return internet_.start(region, std::move(greeting), spools_[region], handler);
  }
  void hold(const std::string& region, const inter::BlobId& blob) override {
    spools_[region].put(blob);
  }
  void release(const std::string& region, const inter::BlobId& blob) override {
    spools_[region].remove(blob);
  }
  std::uint64_t received_bytes(const std::string& region, const inter::BlobId& blob) override {
    internet_.settle(region);
    return spools_[region].received_bytes(blob);
  }
  std::uint64_t sent_bytes(const std::string& region) const override {
    return internet_.sent_bytes(region);
  }

 private:
  wan_sim::VirtualWan wan_;
  std::map<std::string, wan_sim::PhantomSpool> spools_;
  wan_sim::Internet internet_;
};

}  // namespace

std::unique_ptr<diloco::tuner::World> make_virtual_world(const wan_sim::Scenario& scenario,
                                                         std::optional<inter::Shape> topology) {
  return std::make_unique<VirtualWorld>(scenario, topology);
}

}  // namespace causeway::run
