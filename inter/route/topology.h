// Which way payloads go when every region has one for every other: chosen from the measured links.
// A pure function; payloads stay opaque on every hop.
//
//   direct   every region sends its payload to every other one
//   ring     an ordered all-gather: every region passes on what it has from its predecessor. Each
//            link of the ring carries every payload but one; the order avoids slow links
//   relay    direct, but pairs with a poor link go through the region that serves them best
//
// A link costs round trip / 2 + bytes / rate (alpha-beta). Links do not slow each other down in
// this model unless a region's total rate is given: what one region sends shares it, and what it
// receives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inter {

struct LinkCost {
  double latency_s = 0;    // one way
  double bytes_per_s = 0;  // 0: there is no such link
  bool operator==(const LinkCost&) const = default;
};

// Directed: (from, to).
using LinkMatrix = std::map<std::pair<std::string, std::string>, LinkCost>;

struct PlanInput {
  LinkMatrix links;
  std::map<std::string, std::uint64_t> payload_bytes;  // of every region that takes part
  // What a region sends in all, and what it receives; none: only its links limit it.
  std::map<std::string, double> region_bytes_per_s = {};
};

enum class Shape { direct, ring, relay };
std::string to_string(Shape shape);
Shape parse_shape(const std::string& text);  // throws std::system_error with what is allowed

struct Hop {
  std::string from, to;
  auto operator<=>(const Hop&) const = default;
};

struct Plan {
  Shape shape = Shape::direct;
  double predicted_s = 0;  // until every region has every payload; infinite if it cannot be done
  // How each region's payload travels: the hops in an order in which `from` has it already.
  std::map<std::string, std::vector<Hop>> routes;
};

// The best plan of one shape. Ring orders are tried exhaustively up to 9 regions.
Plan plan_direct(const PlanInput& input);
Plan plan_ring(const PlanInput& input);
Plan plan_relay(const PlanInput& input);

// The quickest of the three; of equal ones the simplest.
Plan choose_plan(const PlanInput& input);

// The region through which `bytes` reach `to` soonest, if that takes less than `share` of the
// direct way; empty: directly.
std::string find_relay(const LinkMatrix& links, const std::string& from, const std::string& to,
                       double bytes, double share = 1);

std::string describe(const Plan& plan);  // one line for the log

}  // namespace causeway::inter
