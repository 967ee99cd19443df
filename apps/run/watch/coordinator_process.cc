#include "apps/run/watch/coordinator_process.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

namespace causeway::run {

CoordinatorProcess::CoordinatorProcess(const Config& config, const std::string& metrics,
                                       CheckpointHookOptions hook,
                                       diloco::CoordinatorOptions options)
    : watch_(config, options.region, options.directory, metrics, options.mesh.credentials),
      hook_(context_.get_executor(), std::move(hook)) {
  options.on_round = [this](const std::string& event) { watch_.add(event); };
  coordinator_.emplace(context_.get_executor(), std::move(options));
}

void CoordinatorProcess::run() {
  asio::co_spawn(context_, beat(), [](std::exception_ptr) {});
  signals_.wait([this](SignalWatch::Wish wish) {
    if (wish == SignalWatch::Wish::end_at_once) std::_Exit(130);
    interrupt();
  });
  asio::co_spawn(context_, follow_run(), [this](std::exception_ptr) {
    is_done_ = true;
    signals_.cancel();
    pulse_.cancel();
  });
  asio::co_spawn(context_, coordinator_->run(),
                 [this](std::exception_ptr error, diloco::RunOutcome result) {
                   failure_ = error;
                   outcome_ = std::move(result);
                   is_over_ = true;
                   ended_well() ? hook_.finish() : hook_.stop();
                 });
  context_.run();
}

const diloco::RunOutcome& CoordinatorProcess::outcome() const {
  if (failure_) std::rethrow_exception(failure_);
  return outcome_;
}

// Shows that this thread still gets around to its work, once its files are open: a long ledger
// takes its time, in which whoever watches is to be patient rather than restart it. Until it is
// over, and the timer cancelled: a timer that had expired just before is not.
asio::awaitable<void> CoordinatorProcess::beat() {
  while (!is_done_) {
    asio::error_code cancelled;
    const bool opened = coordinator_->has_opened();
    if (opened) watch_.beat();
    pulse_.expires_after(std::chrono::milliseconds(opened ? 1000 : 100));
    co_await pulse_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

asio::awaitable<void> CoordinatorProcess::follow_run() {
  co_await hook_.run();
  if (ended_well()) co_await wait_for_last_scrape();
}

// A process that is gone says nothing: whoever watches it is to see before that it ended well.
asio::awaitable<void> CoordinatorProcess::wait_for_last_scrape() {
  asio::steady_timer timer(context_);
  while (!is_interrupted_ && std::chrono::steady_clock::now() < watch_.last_scrape_by()) {
    timer.expires_after(std::chrono::milliseconds(100));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

void CoordinatorProcess::interrupt() {
  is_interrupted_ = true;
  is_over_ ? hook_.stop() : coordinator_->stop();
}

}  // namespace causeway::run
