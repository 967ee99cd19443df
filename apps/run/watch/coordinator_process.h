// A coordinator, and what goes beside it until the run and what follows it are over here: metrics,
// curves, the user's command for snapshots, and signals.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "apps/run/config/config.h"
#include "apps/run/region/signal_watch.h"
#include "apps/run/watch/checkpoint_hook.h"
#include "apps/run/watch/region_watch.h"
#include "diloco/coordinator/coordinator.h"

namespace causeway::run {

class CoordinatorProcess {
 public:
  // `metrics`: HOST:PORT where they are served; empty: nowhere.
  CoordinatorProcess(const Config& config, const std::string& metrics, CheckpointHookOptions hook,
                     diloco::CoordinatorOptions options);

  // Until all is over. A signal stops it, and a second one ends the process with 130 (SignalWatch).
  void run();
  // After run(). Throws what ended the coordinator.
  const diloco::RunOutcome& outcome() const;

 private:
  bool ended_well() const { return !failure_ && outcome_.exit_code == 0; }
  asio::awaitable<void> beat();
  asio::awaitable<void> follow_run();
  asio::awaitable<void> wait_for_last_scrape();
  void interrupt();

  RegionWatch watch_;
  asio::io_context context_{1};
  CheckpointHook hook_;
  std::optional<diloco::Coordinator> coordinator_;
  asio::steady_timer pulse_{context_};
  SignalWatch signals_{context_.get_executor()};
  bool is_over_ = false;  // the run, here
  bool is_done_ = false;  // what follows it, too
  bool is_interrupted_ = false;
  diloco::RunOutcome outcome_;
  std::exception_ptr failure_;
};

}  // namespace causeway::run
