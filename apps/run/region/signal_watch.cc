#include "apps/run/region/signal_watch.h"

#include <chrono>
#include <utility>

#include "apps/run/region/own_process.h"

namespace causeway::run {

SignalWatch::SignalWatch(const asio::any_io_executor& executor) : signals_(executor) {
  for (const int signal : stop_signals()) signals_.add(signal);
}

void SignalWatch::wait(std::function<void(Wish)> on_wish) {
  on_wish_ = std::move(on_wish);
  wait_for_next();
}

void SignalWatch::wait_for_next() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    if (error || is_cancelled_) return;
    if (const auto wish = wishes_.heed(signal, std::chrono::steady_clock::now())) on_wish_(*wish);
    wait_for_next();
  });
}

void SignalWatch::cancel() {
  is_cancelled_ = true;
  signals_.cancel();
}

}  // namespace causeway::run
