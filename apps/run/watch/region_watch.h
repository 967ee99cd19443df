// What a coordinator shows of its region while the run goes on, however it was started: a line in
// its log for each round, TensorBoard's files in the region's directory, and metrics if asked for.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/watch/metrics_server.h"
#include "apps/run/watch/region_metrics.h"
#include "apps/run/watch/round_line.h"
#include "apps/run/watch/tensorboard.h"

namespace causeway::run {

class RegionWatch {
 public:
  // `metrics`: HOST:PORT to serve them at (metrics_server.h); empty: nowhere. Throws ConfigError if
  // it cannot be bound.
  RegionWatch(const Config& config, std::string region, std::filesystem::path directory,
              const std::string& metrics);
  // Called every second by the thread whose health is shown.
  void beat();
  // A line of events.jsonl. What cannot be written is tried again with the next: a full disk ends
  // no region.
  void add(const std::string& event);
  // Until when this process is to stay, so that whoever scrapes its metrics sees that the run is
  // over: not at all if nobody does, or it was seen.
  std::chrono::steady_clock::time_point last_scrape_by() const;

 private:
  std::string scraped(const std::string& scraper);
  std::string not_healthy() const;
  void draw(const LoggedRound& round);

  std::string region_;
  std::filesystem::path directory_;
  RoundLines lines_;
  Tensorboard tensorboard_;
  bool begun_ = false;           // TensorBoard's files hold what earlier processes saw, or are to
  bool curves_refused_ = false;  // by the disk
  RegionMetrics metrics_;
  mutable std::mutex mutex_;  // of scrapes_
  Scrapes scrapes_;
  std::atomic<std::chrono::steady_clock::time_point> beat_{std::chrono::steady_clock::now()};
  std::optional<MetricsServer> server_;  // the first to end: its threads use the others
};

}  // namespace causeway::run
