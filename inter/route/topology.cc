#include "inter/route/topology.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include "inter/base/error.h"

namespace causeway::inter {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kExhaustiveRegionsMax = 9;  // 8! orders

using Names = std::vector<std::string>;

Names names_of(const PlanInput& input) {
  Names names;
  for (const auto& [name, bytes] : input.payload_bytes) names.push_back(name);
  return names;
}

LinkCost link(const LinkMatrix& links, const std::string& from, const std::string& to) {
  const auto found = links.find({from, to});
  return found == links.end() ? LinkCost{} : found->second;
}

LinkCost link(const PlanInput& input, const std::string& from, const std::string& to) {
  return link(input.links, from, to);
}

double carry_s(const LinkCost& cost, double bytes) {
  return cost.bytes_per_s <= 0 ? kNever : cost.latency_s + bytes / cost.bytes_per_s;
}

double payload(const PlanInput& input, const std::string& region) {
  return static_cast<double>(input.payload_bytes.at(region));
}

// What all routes together ask of links and regions.
class Load {
 public:
  Load(const PlanInput& input, const std::map<std::string, std::vector<Hop>>& routes)
      : input_(input) {
    for (const auto& [origin, hops] : routes) {
      for (const Hop& hop : hops) {
        link_[{hop.from, hop.to}] += payload(input, origin);
        sent_[hop.from] += payload(input, origin);
        received_[hop.to] += payload(input, origin);
      }
    }
  }

  // Until the link has carried all of it, and both ends all of theirs. Without latency.
  double seconds(const Hop& hop, const LinkCost& cost) const {
    return std::max({carry_s({0, cost.bytes_per_s}, link_.at({hop.from, hop.to})),
                     region_s(hop.from, sent_.at(hop.from)),
                     region_s(hop.to, received_.at(hop.to))});
  }

 private:
  double region_s(const std::string& region, double bytes) const {
    const auto found = input_.region_bytes_per_s.find(region);
    return found == input_.region_bytes_per_s.end() ? 0 : bytes / found->second;
  }

  const PlanInput& input_;
  std::map<std::pair<std::string, std::string>, double> link_;
  std::map<std::string, double> sent_, received_;
};

// A payload arrives when the last of its hops has carried it behind everything else that goes over
// the same link.
double predict(const PlanInput& input, const std::map<std::string, std::vector<Hop>>& routes) {
  const Load load(input, routes);
  double last_s = 0;
  for (const auto& [origin, hops] : routes) {
    std::map<std::string, double> latency_s{{origin, 0}};  // of the way, without the bytes
    std::map<std::string, double> slowest_s{{origin, 0}};  // of its links, with all their bytes
    for (const Hop& hop : hops) {
      const LinkCost cost = link(input, hop.from, hop.to);
      latency_s[hop.to] = latency_s[hop.from] + cost.latency_s;
      // A region passes a payload on when it has checked it: its own bytes count on every hop but
      // the slowest, where they are part of all that goes over the link.
      const double own_s = carry_s({0, cost.bytes_per_s}, payload(input, origin));
      slowest_s[hop.to] = std::max(slowest_s[hop.from] + own_s, load.seconds(hop, cost));
      last_s = std::max(last_s, latency_s[hop.to] + slowest_s[hop.to]);
    }
  }
  return last_s;
}

Plan finish(const PlanInput& input, Shape shape, std::map<std::string, std::vector<Hop>> routes) {
  const double predicted_s = predict(input, routes);
  return {shape, predicted_s, std::move(routes)};
}

std::map<std::string, std::vector<Hop>> ring_routes(const Names& order) {
  std::map<std::string, std::vector<Hop>> routes;
  for (std::size_t origin = 0; origin < order.size(); ++origin) {
    for (std::size_t step = 0; step + 1 < order.size(); ++step) {
      routes[order[origin]].push_back(
          {order[(origin + step) % order.size()], order[(origin + step + 1) % order.size()]});
    }
  }
  return routes;
}

// Of a ring: the widest bottleneck first, then the shortest way round.
struct RingQuality {
  double bottleneck = kNever, latency_s = 0;
  bool operator>(const RingQuality& other) const {
    return bottleneck != other.bottleneck ? bottleneck > other.bottleneck
                                          : latency_s < other.latency_s;
  }
};

using Indices = std::vector<std::size_t>;

// The links of a few regions by number: orders of a ring are many.
class DenseLinks {
 public:
  DenseLinks(const PlanInput& input, const Names& names) : size_(names.size()) {
    for (const std::string& from : names)
      for (const std::string& to : names) costs_.push_back(link(input, from, to));
  }
  RingQuality quality(const Indices& order) const {
    RingQuality quality;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const LinkCost& cost = costs_[order[i] * size_ + order[(i + 1) % order.size()]];
      quality.bottleneck = std::min(quality.bottleneck, cost.bytes_per_s);
      quality.latency_s += cost.latency_s;
    }
    return quality;
  }

 private:
  std::size_t size_;
  std::vector<LinkCost> costs_;
};

// Each region next to the one that it reaches at the highest rate, as a start for large rings.
Names greedy_order(const PlanInput& input, Names left) {
  Names order{left.front()};
  left.erase(left.begin());
  while (!left.empty()) {
    const auto next = std::ranges::max_element(left, [&](const auto& one, const auto& other) {
      return link(input, order.back(), one).bytes_per_s <
             link(input, order.back(), other).bytes_per_s;
    });
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

Names best_order(const PlanInput& input) {
  const Names names = names_of(input);
  if (names.size() > kExhaustiveRegionsMax) return greedy_order(input, names);
  const DenseLinks links(input, names);
  Indices order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Indices best = order;
  RingQuality best_quality = links.quality(best);
  while (order.size() > 2 && std::next_permutation(order.begin() + 1, order.end())) {
    if (const RingQuality quality = links.quality(order); quality > best_quality) {
      best = order;
      best_quality = quality;
    }
  }
  Names ordered;
  std::ranges::transform(best, std::back_inserter(ordered),
                         [&](std::size_t index) { return names[index]; });
  return ordered;
}

std::string best_relay(const PlanInput& input, const std::string& from, const std::string& to) {
  return find_relay(input.links, from, to, payload(input, from));
}

}  // namespace

std::string to_string(Shape shape) {
  switch (shape) {
    case Shape::direct:
      return "direct";
    case Shape::ring:
      return "ring";
    case Shape::relay:
      return "relay";
  }
  return "unknown";
}

Shape parse_shape(const std::string& text) {
  for (const Shape shape : {Shape::direct, Shape::ring, Shape::relay})
    if (to_string(shape) == text) return shape;
  throw std::system_error(Errc::bad_name, "topology \"" + text + "\"; use direct, ring or relay");
}

std::string find_relay(const LinkMatrix& links, const std::string& from, const std::string& to,
                       double bytes, double share) {
  double best_s = share * carry_s(link(links, from, to), bytes);
  std::string best;
  for (const auto& [ends, first] : links) {
    const auto& via = ends.second;
    if (ends.first != from || via == to) continue;
    const double through_s = carry_s(first, bytes) + carry_s(link(links, via, to), bytes);
    if (through_s < best_s) {
      best_s = through_s;
      best = via;
    }
  }
  return best;
}

Plan plan_direct(const PlanInput& input) {
  std::map<std::string, std::vector<Hop>> routes;
  for (const std::string& from : names_of(input)) {
    for (const std::string& to : names_of(input))
      if (from != to) routes[from].push_back({from, to});
  }
  return finish(input, Shape::direct, std::move(routes));
}

Plan plan_ring(const PlanInput& input) {
  return finish(input, Shape::ring, ring_routes(best_order(input)));
}

// Relays are only taken one hop deep, and only over a region that has the payload directly: there
// is no way round in which two wait for each other.
Plan plan_relay(const PlanInput& input) {
  std::map<std::string, std::vector<Hop>> routes;
  for (const std::string& from : names_of(input)) {
    std::vector<Hop> relayed;
    for (const std::string& to : names_of(input)) {
      const std::string via = from == to ? "" : best_relay(input, from, to);
      if (from == to) continue;
      if (via.empty() || !best_relay(input, from, via).empty()) {
        routes[from].push_back({from, to});
      } else {
        relayed.push_back({via, to});
      }
    }
    routes[from].insert(routes[from].end(), relayed.begin(), relayed.end());
  }
  return finish(input, Shape::relay, std::move(routes));
}

Plan choose_plan(const PlanInput& input) {
  Plan best = plan_direct(input);
  for (Plan plan : {plan_relay(input), plan_ring(input)})
    if (plan.predicted_s < best.predicted_s) best = std::move(plan);
  return best;
}

std::string describe(const Plan& plan) {
  std::string text = fmt::format("{}, predicted {:.3f} s", to_string(plan.shape), plan.predicted_s);
  for (const auto& [origin, hops] : plan.routes) {
    text += "; " + origin + ":";
    for (const Hop& hop : hops) text += " " + hop.from + ">" + hop.to;
  }
  return text;
}

}  // namespace causeway::inter
