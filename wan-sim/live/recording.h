// What happened in a run in real time, as JSON lines: the scenario, then connections, actions and
// figures with their times, then the verdict. A recording is a scenario again: the file's own, with
// everything that was done to it by hand on its timeline.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "wan-sim/live/live_wan.h"

namespace causeway::wan_sim {

class Recording {
 public:
  // Throws std::system_error naming the file if it cannot be written.
  Recording(const std::filesystem::path& file, const Scenario& scenario);

  void add(const WanEvent& event);
  void add(Time at, const std::map<Pair, DirectedStats>& stats);
  void add(Time at, const Verdict& verdict);

 private:
  void write(const std::string& line);

  std::filesystem::path file_;
  std::ofstream stream_;
};

std::string to_json(const std::map<Pair, DirectedStats>& stats);

// Untrusted text: throws Errc::bad_scenario with file and line.
Scenario load_recording(const std::filesystem::path& file);
Scenario parse_recording(const std::string& text, const std::filesystem::path& file);

}  // namespace causeway::wan_sim
