// Whether a simulated WAN kept up with what it was to be. If not, the figures of the run describe
// the machine, not the WAN.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace causeway::wan_sim {

// A verdict on fewer releases would be about the first few, when everything starts.
inline constexpr std::uint64_t kReleasesMin = 100;
// The share of a link's bytes that may be missing because of the machine.
inline constexpr double kShortfallMax = 0.02;

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
