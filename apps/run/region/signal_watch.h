// Ctrl-C where an io_context waits for it. Where a thread computes or blocks: own_process.h.
#pragma once

#include <functional>

#include <asio/any_io_executor.hpp>
#include <asio/signal_set.hpp>

#include "apps/run/region/stop_wishes.h"

namespace causeway::run {

class SignalWatch {
 public:
  using Wish = StopWishes::Wish;

  explicit SignalWatch(const asio::any_io_executor& executor);

  // Calls `on_wish` with what each signal wishes for, until cancel().
  void wait(std::function<void(Wish)> on_wish);
  void cancel();

 private:
  void wait_for_next();

  asio::signal_set signals_;
  std::function<void(Wish)> on_wish_;
  StopWishes wishes_;
  bool is_cancelled_ = false;  // also for a signal that came just before
};

}  // namespace causeway::run
