// Ctrl-C where an io_context waits for it. Where a thread computes or blocks: own_process.h.
#pragma once

#include <functional>

#include <asio/any_io_executor.hpp>
#include <asio/signal_set.hpp>

namespace causeway::run {

class SignalWatch {
 public:
  enum class Wish { clean_end, end_at_once };

  explicit SignalWatch(const asio::any_io_executor& executor);

  // Calls `on_wish` with the first signal, for a clean end, and with every SIGINT or SIGTERM after
  // the first of these, for an end at once. SIGHUP hurries nobody: a terminal that closes sends it
  // twice, once by its shell. Until cancel().
  void wait(std::function<void(Wish)> on_wish);
  void cancel();

 private:
  void wait_for_next();

  asio::signal_set signals_;
  std::function<void(Wish)> on_wish_;
  bool asked_ = false;          // for a clean end
  bool asked_by_name_ = false;  // by another signal than SIGHUP
  bool is_cancelled_ = false;   // also for a signal that came just before
};

}  // namespace causeway::run
