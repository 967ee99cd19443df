// What a region's coordinator shows to Prometheus: its status.json and its rounds, as metrics.
// docs/operate.md lists them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "apps/run/config/prices.h"
#include "apps/run/watch/round_line.h"

namespace causeway::run {

// Safe for several threads.
class RegionMetrics {
 public:
  // Counts what an earlier process of this region left in events.jsonl.
  // `prices`: of what is sent, if they are given.
  RegionMetrics(std::string run, std::string region, std::filesystem::path directory,
                Prices prices = {});

  void count(const LoggedRound& round);

  // In Prometheus' text format, version 0.0.4. Read anew each time; without status.json only what
  // the rounds say.
  std::string text() const;

  bool says_end() const;  // that the run is over here

  // Empty: the region takes part in rounds. Otherwise why not, in a sentence.
  std::string not_ready() const;

 private:
  struct Rounds {
    std::uint64_t applied = 0, without_own = 0, late = 0;
    double applied_at_s = 0;  // since 1970, the newest
  };

  std::string run_, region_;
  std::filesystem::path directory_;
  Prices prices_;
  mutable std::mutex mutex_;
  Rounds rounds_;
};

}  // namespace causeway::run
