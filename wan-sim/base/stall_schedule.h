// When a link stands still. Pure: times are given, none is read.
#pragma once

#include <cstdint>
#include <deque>

#include "wan-sim/base/time.h"

namespace causeway::wan_sim {

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
