// Whether a simulated WAN kept up with what it was to be. If not, the figures of the run describe
// the machine, not the WAN.
#pragma once

#include <sched.h>
#include <sys/prctl.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace causeway::wan_sim {

// Asks the system to run this thread when its time has come.
// Timers to the nanosecond instead of 50 us; and, where the user may (root), before threads that
// are not in a hurry. Children inherit neither the right nor the haste. Best effort: lateness is
// measured.
inline void make_this_thread_punctual() {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  sched_param parameter{};
  parameter.sched_priority = sched_get_priority_min(SCHED_RR);
  ::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &parameter);
}

// How late things happened: a histogram whose size does not grow with what it has seen.
class Lateness {
 public:
  void add(std::chrono::nanoseconds late);  // negative counts as 0
  // The smallest bucket bound that `fraction` of the samples do not exceed; at most 9 % above the
  // true value. 0 without samples.
  std::chrono::microseconds quantile(double fraction) const;
  std::uint64_t count() const { return total_; }

 private:
  static constexpr int kPerOctave = 8;
  static constexpr int kBuckets = 27 * kPerOctave;  // 1 us to over a minute
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

// A verdict on fewer releases would be about the first few, when everything starts.
inline constexpr std::uint64_t kReleasesMin = 100;
// The share of a link's bytes that may be missing because of the machine.
inline constexpr double kShortfallMax = 0.02;
inline double share_missed(std::uint64_t missed, std::uint64_t carried) {
  return missed == 0 ? 0 : static_cast<double>(missed) / static_cast<double>(missed + carried);
}

struct Verdict {
  std::chrono::microseconds lateness_p99{0};  // of the worst link
  std::chrono::microseconds lateness_max{0};  // what the scenario allows
  // Of the worst link: the share of what it would have carried that this machine did not carry.
  double shortfall = 0;
  // Pairs whose port was opened for a program that never used it, as FROM:TO.
  std::vector<std::string> silent{};

  bool valid() const;
};
// "valid: ..." or "INVALID: ...", for people.
std::string to_string(const Verdict& verdict);

}  // namespace causeway::wan_sim
