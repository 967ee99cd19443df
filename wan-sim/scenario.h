// What a simulated WAN looks like: regions and directed links. docs/wan-sim.md has the file format.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace causeway::wan_sim {

struct LinkProfile {
  double rate_bytes_per_s = 12.5e6;      // 100 Mbit/s
  std::chrono::microseconds delay{0};    // one-way
  std::chrono::microseconds jitter{0};   // standard deviation, added as |normal|
  double stalls_per_s = 0;               // Poisson
  std::chrono::microseconds stall{0};    // length of one stall
  std::uint64_t queue_bytes = 1U << 20;  // beyond bandwidth x delay; then back-pressure
};

struct Scenario {
  std::string name;
  std::vector<std::string> regions;
  std::map<std::pair<std::string, std::string>, LinkProfile> links;  // directed: (from, to)
  std::uint64_t seed = 1;
};

// Throws std::system_error (Errc::bad_scenario): file, line, what is allowed.
Scenario load_scenario(const std::filesystem::path& file);

}  // namespace causeway::wan_sim
