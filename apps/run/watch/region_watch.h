// What a coordinator shows of its region while the run goes on, however it was started: a line in
// its log for each round, TensorBoard's files in the region's directory, and metrics if asked for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/watch/earlier_rounds.h"
#include "apps/run/watch/metrics_server.h"
#include "apps/run/watch/region_metrics.h"
#include "apps/run/watch/round_line.h"
#include "apps/run/watch/tensorboard.h"
#include "inter/tls/pki.h"

namespace causeway::run {

class RegionWatch {
 public:
  // `metrics`: HOST:PORT to serve them at (metrics_server.h); empty: nowhere. Throws ConfigError if
  // it cannot be bound. `credentials`: the files that this region works with.
  RegionWatch(const Config& config, std::string region, std::filesystem::path directory,
              const std::string& metrics, inter::Credentials credentials = {});
  ~RegionWatch();
  RegionWatch(const RegionWatch&) = delete;
  RegionWatch& operator=(const RegionWatch&) = delete;
  // Called every second by the thread whose health is shown, once it has opened its files: the one
  // that calls add().
  void beat();
  // Why it is not healthy, and the region not ready, in a sentence; empty: it is. Any thread.
  std::string not_healthy() const;
  std::string not_ready() const;
  // A line of events.jsonl. What cannot be written is tried again with the next: a full disk ends
  // no region.
  void add(const std::string& event);
  // Until when this process is to stay, so that whoever scrapes its metrics sees that the run is
  // over: not at all if nobody does, or it was seen.
  std::chrono::steady_clock::time_point last_scrape_by() const;

 private:
  std::string scraped(const std::string& scraper);
  void look_at_certificates() const;
  void draw();
  void draw_some();

  std::string region_;
  std::filesystem::path directory_;
  RoundLines lines_;
  Tensorboard tensorboard_;
  std::optional<EarlierRounds> earlier_;  // that TensorBoard's files are still to have
  std::optional<std::uint64_t> first_;    // round of this process
  std::deque<LoggedRound> newer_;         // which come after those
  bool curves_refused_ = false;           // by the disk
  RegionMetrics metrics_;
  mutable std::mutex mutex_;  // of scrapes_
  Scrapes scrapes_;
  static constexpr std::chrono::steady_clock::time_point kNever{};
  std::atomic<std::chrono::steady_clock::time_point> beat_{kNever};
  inter::Credentials credentials_;
  std::chrono::steady_clock::time_point looked_at_certificates_ = kNever;
  std::optional<MetricsServer> server_;  // the first to end: its threads use the others
};

}  // namespace causeway::run
