// What chance does to a link: jitter, loss and stalls. Pure: times are given, none is read, and
// chance is drawn by key.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace causeway::wan_sim {

// The simulator's time: nanoseconds since any fixed instant.
using Time = std::chrono::nanoseconds;

inline constexpr Time kNever = Time::max() / 4;  // later than all else, and far from overflow

inline double in_seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

// Jitter: what is added to a link's delay, segment by segment. Pure, and drawn by key.
//
// A standard normal number z is drawn, correlated with the flow's one before by AR(1), and mapped
// to the distribution through its quantile function: whatever the correlation is, each draw has
// exactly the distribution asked for (a Gaussian copula).
enum class JitterShape : std::uint8_t {
  half_normal,  // scale x |N(0, 1)|: only ever later; the default
  constant,     // scale
  uniform,      // between -scale and +scale
  normal,       // scale x N(0, 1)
  lognormal,    // scale x exp(parameter x N(0, 1)): scale is the median
  pareto,  // Lomax: scale x ((1 - u)^(-1 / parameter) - 1): from 0, mean scale / (parameter - 1)
  table,   // measured values: linear between equally spaced quantiles; scale unused
};
inline constexpr std::string_view kJitterShapes[] = {"half-normal", "constant", "uniform", "normal",
                                                     "lognormal",   "pareto",   "table"};

struct JitterProfile {
  JitterShape shape = JitterShape::half_normal;
  std::chrono::microseconds scale{0};
  double parameter = 0;            // lognormal: sigma; pareto: alpha
  double correlation = 0;          // of z with the flow's z before, in [0, 1)
  std::vector<double> table_ms{};  // ascending
  bool operator==(const JitterProfile&) const = default;
};

// The value of a draw. May be negative: the link sees to it that nothing arrives before it was
// sent.
Time jitter_of(const JitterProfile& profile, double z);

// The draws of one flow. A segment that begins on the grid continues the chain of grid points,
// whatever lay between, so that bulk data draws the same again however its reads were cut.
class JitterChain {
 public:
  double draw(const JitterProfile& profile, std::uint64_t key, bool on_grid);

 private:
  double grid_ = 0, last_ = 0;
  bool grid_begun_ = false, begun_ = false;
};

// Which packets a link loses: a Gilbert-Elliott chain of two states, stepped once per packet of
// kPacketBytes of a flow. Independent loss is the chain that never leaves its first state. Pure,
// and drawn by (key, packet): the same bytes lose the same packets again, whatever the time.

// The payload of a full TCP segment on Ethernet, with timestamps.
inline constexpr std::uint64_t kPacketBytes = 1448;

// Gilbert (1960) and Elliott (1963).
struct LossProfile {
  double good = 0, bad = 0;     // probability of losing a packet in each state
  double enter = 0, leave = 1;  // probability, per packet, of entering and leaving the bad state
  bool operator==(const LossProfile&) const = default;

  bool any() const { return good > 0 || (bad > 0 && enter > 0); }
  double mean() const { return good + (bad - good) * enter / (enter + leave); }
};

LossProfile independent_loss(double probability);
// Loses `probability` of all packets in bursts of `burst_packets` on average.
LossProfile burst_loss(double probability, double burst_packets);

// Mixed into the key of a flow whose jitter is drawn by that key too.
inline constexpr std::uint64_t kLossKey = 0x6c6f7373;

class LossChain {
 public:
  explicit LossChain(std::uint64_t key) : key_(key) {}

  // Packets in order: 0, 1, 2, ...
  bool loses_next(const LossProfile& profile);
  // A packet that is sent again comes a round trip later or more: the burst that hit it is over,
  // and it is lost with the mean probability.
  bool loses_again(const LossProfile& profile, std::uint64_t packet, std::uint64_t attempt) const;
  std::uint64_t packets() const { return packet_; }

 private:
  std::uint64_t key_;
  std::uint64_t packet_ = 0;
  bool bad_ = false;
};

// When a link stands still. Pure: times are given, none is read.

// Stalls that start as a Poisson process, drawn by (key, number of the stall) and counted from the
// link's first use, and stalls that a fault adds. Overlapping ones merge.
class StallSchedule {
 public:
  StallSchedule(double stalls_per_s, Time stall, std::uint64_t key);

  void start(Time now);  // of the Poisson process; only the first call counts

  // When `work`, begun at `begin` and interrupted by every stall on the way, is done.
  Time done(Time begin, Time work);
  void add(Time begin, Time length);
  // Stands still until released: done() then answers kNever or later.
  void hold(Time begin) { add(begin, kNever - begin); }
  void release(Time now);
  void forget(Time before);  // promises that nothing earlier is asked about again

 private:
  struct Interval {
    Time begin, end;
  };
  Time draw_gap();
  void draw_until(Time time);

  double stalls_per_s_;
  Time stall_;
  std::uint64_t key_;
  bool started_ = false;
  Time next_begin_{0};
  std::uint64_t drawn_ = 0;
  std::deque<Interval> intervals_;  // disjoint, in order
};

}  // namespace causeway::wan_sim
