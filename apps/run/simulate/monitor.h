// Watches the regions of a simulation through their files: what the display shows, and the
// observations kept for the report.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/region/run_directory.h"
#include "apps/run/simulate/display.h"
#include "apps/run/simulate/refused_files.h"
#include "apps/run/watch/tensorboard.h"

namespace causeway::run {

class Monitor {
 public:
  Monitor(const Config& config, const RunDirectory& directory);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // What the disk refuses is noted here.
  RefusedFiles& files() { return files_; }
  void note(std::string text) { view_.notes.push_back(std::move(text)); }

  // `elapsed_s` since the phase began, earlier sessions included.
  const View& observe_training(double elapsed_s, std::uint32_t restarts);
  // `one_process`: one for all regions, shown as such.
  const View& observe_baseline(double elapsed_s, bool one_process);

  // Rounds applied by a region, as last read: grows while its processes get on.
  std::uint64_t version(const std::string& region) const;
  // Whether a worker of the region has done anything since this began.
  bool has_worked(const std::string& region) const;

 private:
  void begin(const std::string& phase, double elapsed_s);
  void take(std::size_t index, const std::string& series, const RegionStatus& status,
            double elapsed_s);
  void keep_new_samples();
  void draw_new_samples();
  void finish_observation(double elapsed_s);
  void follow_k(const RegionStatus& status);
  double wan_rate(double elapsed_s);
  bool is_of_now(const std::string& region, const RegionStatus& status) const;

  const Config& config_;
  const RunDirectory& directory_;
  View view_;
  RefusedFiles files_{[this](const std::string& text) { note(text); }};
  std::string k_change_;  // the newest that was noted
  std::map<std::string, std::uint64_t> versions_;
  std::map<std::string, std::uint64_t> earlier_pids_;  // of coordinators of earlier sessions
  std::set<std::string> worked_;                       // regions: has_worked
  std::map<std::string, Sample> last_samples_;
  std::vector<Sample> new_samples_, unwritten_;  // of this look; not in progress.jsonl yet
  std::map<std::string, std::optional<double>> validated_;  // newest validation losses by series
  std::optional<Tensorboard> tensorboard_;                  // opened with the first sample
  std::deque<std::pair<double, std::uint64_t>>
      wan_history_;             // (elapsed, bytes) of the last seconds
  double began_elapsed_s_ = 0;  // of this session
  double began_fraction_ = 0;
  bool fresh_ = true;  // nothing observed in this phase yet
};

}  // namespace causeway::run
