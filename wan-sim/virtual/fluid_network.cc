// Fluid: bytes flow at rates that change only where a flow starts, ends, or a link changes.
//
// A flow's bytes leave at its rate and arrive the link's delay later, with the jitter of what was
// offered last. Nothing is cut into chunks: an hour costs as many events as there are transfers,
// and an event touches only the flows that share something with it, directly or by way of others.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "wan-sim/link/link_rules.h"
#include "wan-sim/scenario/timeline.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::wan_sim {

namespace {

// Resources by what each has left for one of the flows that still wait, least first.
class Bottlenecks {
 public:
  Bottlenecks(std::span<const double> capacities, std::span<const std::vector<std::uint32_t>> uses)
      : left_(capacities.begin(), capacities.end()), waiting_(capacities.size(), 0) {
    for (const auto& flow : uses) {
      for (const std::uint32_t resource : flow) ++waiting_[resource];
    }
    for (std::uint32_t i = 0; i < left_.size(); ++i)
      if (waiting_[i] > 0) heap_.push({share(i), i});
  }

  // The least; none: nobody waits. Shares only grow while flows are served, so that an old one is
  // never too large.
  std::optional<std::uint32_t> next() {
    while (!heap_.empty()) {
      const auto [known, resource] = heap_.top();
      heap_.pop();
      if (waiting_[resource] == 0) continue;
      if (share(resource) <= known) return resource;
      heap_.push({share(resource), resource});
    }
    return std::nullopt;
  }

  double share(std::uint32_t resource) const { return left_[resource] / waiting_[resource]; }
  void serve(const std::vector<std::uint32_t>& flow, double rate) {
    for (const std::uint32_t resource : flow) {
      left_[resource] = std::max(0.0, left_[resource] - rate);
      --waiting_[resource];
    }
  }

 private:
  using Known = std::pair<double, std::uint32_t>;
  std::vector<double> left_;
  std::vector<std::uint32_t> waiting_;
  std::priority_queue<Known, std::vector<Known>, std::greater<>> heap_;
};

}  // namespace

std::vector<double> max_min_rates(std::span<const double> capacities,
                                  std::span<const std::vector<std::uint32_t>> uses) {
  std::vector<std::vector<std::uint32_t>> users(capacities.size());
  for (std::uint32_t i = 0; i < uses.size(); ++i) {
    for (const std::uint32_t resource : uses[i]) users[resource].push_back(i);
  }
  constexpr double kUnserved = -1;
  std::vector<double> rates(uses.size(), kUnserved);
  Bottlenecks bottlenecks(capacities, uses);
  while (const auto bottleneck = bottlenecks.next()) {
    const double share = bottlenecks.share(*bottleneck);
    for (const std::uint32_t flow : users[*bottleneck]) {
      if (rates[flow] != kUnserved) continue;
      rates[flow] = share;
      bottlenecks.serve(uses[flow], share);
    }
  }
  return rates;
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
    users_.resize(capacities_.size());
    seen_.resize(capacities_.size());
    places_.resize(capacities_.size());
  }

  FlowId open(const std::string& from, const std::string& to, std::uint64_t number, bool forward,
              OnArrival on_arrival) override {
    const auto near = hosts_.find(from), far = hosts_.find(to);
    Flow flow;
    const Pair pair{near == hosts_.end() ? from : near->second.region,
                    far == hosts_.end() ? to : far->second.region};
    flow.link = &links_.at(pair);
    flow.uses.push_back(flow.link->place);
    if (near != hosts_.end()) flow.uses.push_back(near->second.place);
    if (far != hosts_.end()) flow.uses.push_back(far->second.place + 1);
    const Pair dialled = forward ? pair : Pair{pair.second, pair.first};
    flow.key = key_of_flow(key_of_connection(seed_, dialled, number), forward);
    flow.on_arrival = std::move(on_arrival);
    return flows_.add(std::move(flow));
  }

  void close(FlowId id) override {
    Flow& flow = flows_.at(id);
    const std::vector<std::uint32_t> freed = flow.uses;
    if (flow.active) stop(id, flow);
    std::erase_if(arrivals_, [id](const auto& arrival) { return arrival.second.flow == id; });
    flows_.remove(id);
    share_soon(freed);
  }

  void offer(FlowId id, std::uint64_t bytes, Time now) override {
    now_ = now;
    Flow& flow = flows_.at(id);
    if (flow.active) bring_up_to_date(id, flow);
    const auto& jitter = flow.link->profile.jitter;
    flow.jitter = jitter_of(jitter, flow.chain.draw(jitter, mix(flow.key, flow.offered), false));
    flow.offered += bytes;
    if (bytes <= kSmallBytes && flow.left == 0 && !stands(*flow.link)) {
      const double seconds = static_cast<double>(bytes) / flow.link->profile.rate_bytes_per_s;
      return schedule(id, flow, bytes, Time(static_cast<Time::rep>(1e9 * seconds)));
    }
    flow.left += static_cast<double>(bytes);
    if (!flow.active) start(id, flow);
    set_rate(id, flow, 0);  // with its new end
    share_soon(flow.uses);
  }

  void settle(FlowId id, Time now) override {
    now_ = now;
    Flow& flow = flows_.at(id);
    const double seconds = in_seconds(now - flow.since - delay_of(flow));
    if (!flow.active || seconds <= 0 || flow.last_arrival > now) return;
    // Never the last byte, which is an event.
    const double arrived = flow.unhanded + std::min(flow.rate * seconds, flow.left - 1);
    if (arrived < static_cast<double>(flow.early + 1)) return;
    const auto whole = static_cast<std::uint64_t>(arrived);
    const std::uint64_t fresh = whole - std::exchange(flow.early, whole);
    const OnArrival handler = flow.on_arrival;
    handler(fresh);
  }

  std::optional<Time> traverse(const Pair& pair, Time now, std::uint64_t) override {
    const Link& link = links_.at(pair);
    if (link.holed || link.profile.rate_bytes_per_s <= 0) return std::nullopt;
    return std::max(now, link.stalled_until) + link.profile.delay;
  }

  Time next_event() const override {
    if (!to_share_.empty()) return now_;
    const Time arrival = arrivals_.empty() ? kNever : arrivals_.begin()->first.first;
    const Time end = ends_.empty() ? kNever : ends_.begin()->first;
    return std::min({arrival, end, next_resume_});
  }

  void advance(Time now) override {
    now_ = now;
    if (!to_share_.empty()) share(std::exchange(to_share_, {}));
    if (now >= next_resume_) resume_links();
    while (!ends_.empty() && ends_.begin()->first <= now)
      share(flows_.at(ends_.begin()->second).uses);
    while (!arrivals_.empty() && arrivals_.begin()->first.first <= now) {
      const auto arrival = arrivals_.extract(arrivals_.begin());
      const Flow* flow = flows_.find(arrival.mapped().flow);
      if (!flow) continue;
      const OnArrival handler = flow->on_arrival;  // a copy, because it may close its flow
      handler(arrival.mapped().bytes);
    }
  }

  void change(const Pair& pair, const LinkProfile& profile, Time now) override {
    change_link(pair, now, [&](Link& link) { link.profile = profile; });
  }
  void stall(const Pair& pair, Time length, Time now) override {
    change_link(pair, now, [&](Link& link) {
      link.stalled_until = std::max(link.stalled_until, now + length);
      if (link.stalled_until > now) next_resume_ = std::min(next_resume_, link.stalled_until);
    });
  }
  void black_hole(const Pair& pair, bool on, Time now) override {
    change_link(pair, now, [&](Link& link) { link.holed = on; });
  }
  const LinkProfile& profile(const Pair& pair) const override { return links_.at(pair).profile; }
  void observe(std::function<void(const Pair&, const Decision&)>) override {}

 private:
  struct Link {
    LinkProfile profile;
    std::uint32_t place = 0;
    bool holed = false;
    Time stalled_until{0};
  };
  // What it has sent since `since` follows from its rate.
  struct Flow {
    const Link* link = nullptr;
    std::vector<std::uint32_t> uses;
    std::uint64_t key = 0, offered = 0;
    OnArrival on_arrival;
    bool active = false;  // something is left
    Time since{0}, ends = kNever;
    double rate = 0;
    double left = 0;          // bytes offered that had not left then
    double unhanded = 0;      // bytes that had left then and are on no arrival yet
    std::uint64_t early = 0;  // bytes that arrived since, before their arrival is an event
    Time jitter{0}, last_arrival{0};
    JitterChain chain;
    std::uint64_t seen = 0;  // as seen_
  };
  struct HostPlace {
    std::string region;
    std::uint32_t place = 0;
  };
  struct Arriving {
    FlowId flow;
    std::uint64_t bytes;
  };

  void start(FlowId id, Flow& flow) {
    flow.active = true;
    flow.since = now_;
    for (const std::uint32_t resource : flow.uses) users_[resource].push_back(id);
  }

  void stop(FlowId id, Flow& flow) {
    set_rate(id, flow, 0);
    flow.active = false;
    for (const std::uint32_t resource : flow.uses) std::erase(users_[resource], id);
  }

  // Its end follows; everything up to now was accounted for.
  void set_rate(FlowId id, Flow& flow, double rate) {
    ends_.erase({flow.ends, id});
    flow.rate = rate;
    flow.ends = kNever;
    if (rate <= 0) return;
    const double seconds = std::min(flow.left / rate, 1e9);
    flow.ends = now_ + Time(static_cast<Time::rep>(std::ceil(1e9 * seconds)));
    ends_.insert({flow.ends, id});
  }

  double left_by_now(const Flow& flow) const {
    return flow.left - std::min(flow.left, flow.rate * in_seconds(now_ - flow.since));
  }

  void bring_up_to_date(FlowId id, Flow& flow) {
    const double left = left_by_now(flow);
    flow.unhanded += flow.left - left;
    flow.left = left;
    flow.since = now_;
    const bool done = flow.left < kAlmost;
    if (done) flow.unhanded += std::exchange(flow.left, 0);
    hand_over(id, flow, done);
    if (done) stop(id, flow);
  }

  void hand_over(FlowId id, Flow& flow, bool done) {
    const double early = static_cast<double>(std::exchange(flow.early, 0));
    const double whole =
        std::max(early, done ? std::round(flow.unhanded) : std::floor(flow.unhanded));
    flow.unhanded = done ? 0 : flow.unhanded - whole;
    if (whole > early) schedule(id, flow, static_cast<std::uint64_t>(whole - early), Time{0});
  }

  static Time delay_of(const Flow& flow) {
    return std::max(Time{0}, flow.link->profile.delay + flow.jitter);
  }

  void schedule(FlowId id, Flow& flow, std::uint64_t bytes, Time sending) {
    flow.last_arrival = std::max(flow.last_arrival, now_ + sending + delay_of(flow));
    arrivals_.emplace(std::pair(flow.last_arrival, sequence_++), Arriving{id, bytes});
  }

  bool stands(const Link& link) const {
    return link.holed || link.stalled_until > now_ || link.profile.rate_bytes_per_s <= 0;
  }

  // What has left by now has done so as the link was.
  template <typename Change>
  void change_link(const Pair& pair, Time now, const Change& change) {
    now_ = now;
    Link& link = links_.at(pair);
    const std::vector<FlowId> users = users_[link.place];
    for (const FlowId id : users) bring_up_to_date(id, flows_.at(id));
    change(link);
    share_link(link);
  }

  void share_link(const Link& link) {
    capacities_[link.place] = stands(link) ? 0 : link.profile.rate_bytes_per_s;
    share({link.place});
  }

  void resume_links() {
    next_resume_ = kNever;
    for (const auto& [pair, link] : links_) {
      if (link.stalled_until > now_) {
        next_resume_ = std::min(next_resume_, link.stalled_until);
      } else {
        share_link(link);
      }
    }
  }

  // A region that pushes to all others starts many flows at one time, which are shared out once.
  void share_soon(const std::vector<std::uint32_t>& resources) {
    to_share_.insert(to_share_.end(), resources.begin(), resources.end());
  }

  // Those that share something with `resources`, directly or by way of others, and all that they
  // use, which is put after `resources`.
  std::vector<FlowId> connected(std::vector<std::uint32_t>& resources) {
    std::vector<FlowId> flows;
    ++look_;
    std::erase_if(resources, [this](std::uint32_t resource) { return !is_new(seen_[resource]); });
    for (std::size_t i = 0; i < resources.size(); ++i) {
      for (const FlowId id : users_[resources[i]]) {
        Flow& flow = flows_.at(id);
        if (!is_new(flow.seen)) continue;
        flows.push_back(id);
        for (const std::uint32_t resource : flow.uses)
          if (is_new(seen_[resource])) resources.push_back(resource);
      }
    }
    std::ranges::sort(flows);
    return flows;
  }

  // In this look around.
  bool is_new(std::uint64_t& seen) const { return std::exchange(seen, look_) != look_; }

  void share(std::vector<std::uint32_t> resources) {
    std::vector<FlowId> flows = connected(resources);
    std::erase_if(flows, [this](FlowId id) {
      Flow& flow = flows_.at(id);
      if (left_by_now(flow) >= kAlmost) return false;
      bring_up_to_date(id, flow);
      return true;
    });
    std::vector<double> capacities;
    for (const std::uint32_t resource : resources) {
      places_[resource] = static_cast<std::uint32_t>(capacities.size());
      capacities.push_back(capacities_[resource]);
    }
    std::vector<std::vector<std::uint32_t>> uses;
    for (const FlowId id : flows) {
      auto& of_flow = uses.emplace_back();
      for (const std::uint32_t resource : flows_.at(id).uses) of_flow.push_back(places_[resource]);
    }
    const auto rates = max_min_rates(capacities, uses);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      Flow& flow = flows_.at(flows[i]);
      const bool due = flow.ends <= now_;  // rounding left a rest of it
      if (flow.rate == rates[i] && !due) continue;
      bring_up_to_date(flows[i], flow);
      set_rate(flows[i], flow, rates[i]);
    }
  }

  std::uint64_t seed_;
  std::map<Pair, Link> links_;
  std::map<std::string, HostPlace> hosts_;
  std::vector<double> capacities_;
  std::vector<std::vector<FlowId>> users_;  // of each capacity: the flows that are active
  std::vector<std::uint32_t> to_share_;     // capacities of which flows began or ended just now
  std::uint64_t look_ = 0;                  // around: which of seen_ is new
  std::vector<std::uint64_t> seen_;         // of each capacity: in which look around
  std::vector<std::uint32_t> places_;       // of each capacity: among those that are shared out
  FlowTable<Flow> flows_;
  std::set<std::pair<Time, FlowId>> ends_;
  std::map<std::pair<Time, std::uint64_t>, Arriving> arrivals_;
  std::uint64_t sequence_ = 0;
  Time now_{0};
  Time next_resume_ = kNever;
};

}  // namespace

std::unique_ptr<VirtualNetwork> make_fluid_network(const Scenario& scenario) {
  return std::make_unique<FluidNetwork>(scenario);
}

}  // namespace causeway::wan_sim
