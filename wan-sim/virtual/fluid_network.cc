// Fluid: bytes flow at rates that change only where a flow starts, ends, or a link changes.
//
// A flow's bytes leave at its rate and arrive the link's delay later, with the jitter of what was
// offered last. Nothing is cut into chunks: an hour costs as many events as there are transfers.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "wan-sim/link/link_rules.h"
#include "wan-sim/scenario/timeline.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::wan_sim {

std::vector<double> max_min_rates(std::span<const double> capacities,
                                  std::span<const std::vector<std::uint32_t>> uses) {
  std::vector<double> left(capacities.begin(), capacities.end());
  std::vector<std::uint32_t> waiting(capacities.size(), 0);
  for (const auto& flow : uses) {
    for (const std::uint32_t resource : flow) ++waiting[resource];
  }
  constexpr double kUnserved = -1;
  std::vector<double> rates(uses.size(), kUnserved);
  for (;;) {
    double share = std::numeric_limits<double>::infinity();
    std::uint32_t bottleneck = 0;
    for (std::uint32_t i = 0; i < left.size(); ++i) {
      if (waiting[i] > 0 && left[i] / waiting[i] < share) {
        share = left[i] / waiting[i];
        bottleneck = i;
      }
    }
    if (share == std::numeric_limits<double>::infinity()) return rates;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (rates[i] != kUnserved || std::ranges::find(uses[i], bottleneck) == uses[i].end())
        continue;
      rates[i] = share;
      for (const std::uint32_t resource : uses[i]) {
        left[resource] = std::max(0.0, left[resource] - share);
        --waiting[resource];
      }
    }
  }
}

namespace {

// A message this small takes the link's rate for itself: sharing would cost more than it tells.
constexpr std::uint64_t kSmallBytes = 16 * 1024;

// Rounding leaves fractions of bytes.
constexpr double kAlmost = 1e-3;

class FluidNetwork : public VirtualNetwork {
 public:
  explicit FluidNetwork(const Scenario& scenario) : seed_(scenario.seed) {
    for (const auto& [pair, profile] : scenario.links) {
      Link link;
      link.profile = profile;
      link.place = static_cast<std::uint32_t>(capacities_.size());
      links_[pair] = link;
      capacities_.push_back(profile.rate_bytes_per_s);
    }
    for (const Host& host : scenario.hosts) {
      hosts_[host.name] = {host.region, static_cast<std::uint32_t>(capacities_.size())};
      capacities_.push_back(host.rate_bytes_per_s);  // sends
      capacities_.push_back(host.rate_bytes_per_s);  // receives
    }
  }

  FlowId open(const std::string& from, const std::string& to, std::uint64_t number, bool forward,
              OnArrival on_arrival) override {
    const auto near = hosts_.find(from), far = hosts_.find(to);
    Flow flow;
    flow.pair = {near == hosts_.end() ? from : near->second.region,
                 far == hosts_.end() ? to : far->second.region};
    flow.uses.push_back(links_.at(flow.pair).place);
    if (near != hosts_.end()) flow.uses.push_back(near->second.place);
    if (far != hosts_.end()) flow.uses.push_back(far->second.place + 1);
    const Pair dialled = forward ? flow.pair : Pair{flow.pair.second, flow.pair.first};
    flow.key = key_of_flow(key_of_connection(seed_, dialled, number), forward);
    flow.on_arrival = std::move(on_arrival);
    return flows_.add(std::move(flow));
  }

  void close(FlowId id) override {
    flow_to(now_);
    active_.erase(id);
    std::erase_if(arrivals_, [id](const auto& arrival) { return arrival.second.flow == id; });
    flows_.remove(id);
    share();
  }

  void offer(FlowId id, std::uint64_t bytes, Time now) override {
    flow_to(now);
    Flow& flow = flows_.at(id);
    const auto& jitter = links_.at(flow.pair).profile.jitter;
    flow.jitter = jitter_of(jitter, flow.chain.draw(jitter, mix(flow.key, flow.offered), false));
    flow.offered += bytes;
    if (bytes <= kSmallBytes && flow.left == 0 && !stands(links_.at(flow.pair))) {
      const double seconds =
          static_cast<double>(bytes) / links_.at(flow.pair).profile.rate_bytes_per_s;
      return schedule(id, flow, bytes, Time(static_cast<Time::rep>(1e9 * seconds)));
    }
    flow.left += static_cast<double>(bytes);
    active_.insert(id);
    share();
  }

  void settle(Time now) override { flow_to(now); }

  std::optional<Time> traverse(const Pair& pair, Time now, std::uint64_t) override {
    const Link& link = links_.at(pair);
    if (link.holed || link.profile.rate_bytes_per_s <= 0) return std::nullopt;
    return std::max(now, link.stalled_until) + link.profile.delay;
  }

  Time next_event() const override {
    const Time arrival = arrivals_.empty() ? kNever : arrivals_.begin()->first.first;
    return std::min({arrival, next_end_, next_resume_});
  }

  void advance(Time now) override {
    if (now >= next_end_ || now >= next_resume_) {
      flow_to(now);
      share();
    }
    while (!arrivals_.empty() && arrivals_.begin()->first.first <= now) {
      const auto arrival = arrivals_.extract(arrivals_.begin());
      const Flow* flow = flows_.find(arrival.mapped().flow);
      if (!flow) continue;
      const OnArrival handler = flow->on_arrival;  // a copy, because it may close its flow
      handler(arrival.mapped().bytes);
    }
  }

  void change(const Pair& pair, const LinkProfile& profile, Time now) override {
    flow_to(now);
    links_.at(pair).profile = profile;
    share();
  }
  void stall(const Pair& pair, Time length, Time now) override {
    flow_to(now);
    Link& link = links_.at(pair);
    link.stalled_until = std::max(link.stalled_until, now + length);
    share();
  }
  void black_hole(const Pair& pair, bool on, Time now) override {
    flow_to(now);
    links_.at(pair).holed = on;
    share();
  }
  const LinkProfile& profile(const Pair& pair) const override { return links_.at(pair).profile; }
  void observe(std::function<void(const Pair&, const Decision&)>) override {}

 private:
  struct Flow {
    Pair pair;
    std::vector<std::uint32_t> uses;
    std::uint64_t key = 0, offered = 0;
    OnArrival on_arrival;
    double left = 0;      // bytes offered that have not left
    double unhanded = 0;  // bytes that have left and are on no arrival yet
    double rate = 0;
    Time jitter{0}, last_arrival{0};
    JitterChain chain;
  };
  struct Link {
    LinkProfile profile;
    std::uint32_t place = 0;
    bool holed = false;
    Time stalled_until{0};
  };
  struct HostPlace {
    std::string region;
    std::uint32_t place = 0;
  };
  struct Arriving {
    FlowId flow;
    std::uint64_t bytes;
  };

  void flow_to(Time now) {
    const double seconds = in_seconds(now - std::exchange(now_, now));
    for (auto id = active_.begin(); id != active_.end();) {
      Flow& flow = flows_.at(*id);
      const double sent = std::min(flow.left, flow.rate * seconds);
      flow.left -= sent;
      flow.unhanded += sent;
      const bool done = flow.left < kAlmost;
      if (done) flow.unhanded += std::exchange(flow.left, 0);
      hand_over(*id, flow, done);
      id = done ? active_.erase(id) : std::next(id);
    }
  }

  void hand_over(FlowId id, Flow& flow, bool done) {
    const double whole = done ? std::round(flow.unhanded) : std::floor(flow.unhanded);
    if (whole < 1) return;
    flow.unhanded = done ? 0 : flow.unhanded - whole;
    schedule(id, flow, static_cast<std::uint64_t>(whole), Time{0});
  }

  void schedule(FlowId id, Flow& flow, std::uint64_t bytes, Time sending) {
    const Time delay = std::max(Time{0}, links_.at(flow.pair).profile.delay + flow.jitter);
    flow.last_arrival = std::max(flow.last_arrival, now_ + sending + delay);
    arrivals_.emplace(std::pair(flow.last_arrival, sequence_++), Arriving{id, bytes});
  }

  bool stands(const Link& link) const {
    return link.holed || link.stalled_until > now_ || link.profile.rate_bytes_per_s <= 0;
  }

  void share() {
    next_resume_ = kNever;
    for (auto& [pair, link] : links_) {
      capacities_[link.place] = stands(link) ? 0 : link.profile.rate_bytes_per_s;
      if (link.stalled_until > now_) next_resume_ = std::min(next_resume_, link.stalled_until);
    }
    std::vector<std::vector<std::uint32_t>> uses;
    for (const FlowId id : active_) uses.push_back(flows_.at(id).uses);
    const auto rates = max_min_rates(capacities_, uses);
    next_end_ = kNever;
    std::size_t i = 0;
    for (const FlowId id : active_) {
      Flow& flow = flows_.at(id);
      flow.rate = rates[i++];
      if (flow.rate <= 0) continue;
      const double seconds = std::min(flow.left / flow.rate, 1e9);
      next_end_ =
          std::min(next_end_, now_ + Time(static_cast<Time::rep>(std::ceil(1e9 * seconds))));
    }
  }

  std::uint64_t seed_;
  std::map<Pair, Link> links_;
  std::map<std::string, HostPlace> hosts_;
  std::vector<double> capacities_;
  FlowTable<Flow> flows_;
  std::set<FlowId> active_;
  std::map<std::pair<Time, std::uint64_t>, Arriving> arrivals_;
  std::uint64_t sequence_ = 0;
  Time now_{0};
  Time next_end_ = kNever, next_resume_ = kNever;
};

}  // namespace

std::unique_ptr<VirtualNetwork> make_fluid_network(const Scenario& scenario) {
  return std::make_unique<FluidNetwork>(scenario);
}

}  // namespace causeway::wan_sim
