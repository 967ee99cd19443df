// What a region's coordinator shows to Prometheus: its status.json and its rounds, as metrics.
// docs/operate.md lists them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "apps/run/config/prices.h"
#include "apps/run/region/region_files.h"
#include "apps/run/watch/round_line.h"
#include "inter/tls/pki.h"

namespace causeway::run {

// Safe for several threads.
class RegionMetrics {
 public:
  // What no change of the host's date moves.
  using Clock = std::chrono::steady_clock;

  // `prices`: of what is sent, if they are given. `credentials`: the files whose end is shown.
  RegionMetrics(std::string run, std::string region, std::filesystem::path directory,
                Prices prices = {}, inter::Credentials credentials = {});

  void count(const LoggedRound& round, Clock::time_point now = Clock::now());
  // First of all: what earlier processes of this region left in events.jsonl.
  void count_earlier();

  // In Prometheus' text format, version 0.0.4. Read anew each time; without status.json only what
  // the rounds say.
  std::string text(Clock::time_point now = Clock::now()) const;

  bool says_end() const;  // that the run is over here

  // Empty: the region takes part in rounds. Otherwise why not, in a sentence.
  std::string not_ready() const;

 private:
  struct Rounds {
    std::uint64_t applied = 0, without_own = 0, late = 0;
    double applied_at_s = 0;  // since 1970, the newest
    Clock::time_point since;  // it was applied, or this process began
  };
  // The most that was shown of it.
  struct Totals {
    std::string run_id;
    std::uint64_t steps = 0, tokens = 0;
  };

  void keep_totals(RegionStatus& status) const;

  std::string run_, region_;
  std::filesystem::path directory_;
  Prices prices_;
  inter::Credentials credentials_;
  mutable std::mutex mutex_;
  Rounds rounds_;
  mutable Totals totals_;
};

}  // namespace causeway::run
