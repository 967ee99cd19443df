// Small tools for coroutines that share one thread. Internal to inter.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

namespace causeway::inter {

// Wakes whoever waits now. A wake-up says "look again", so every wait sits in a loop over its
// condition.
class Signal {
 public:
  explicit Signal(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  void notify() { timer_.cancel(); }
  asio::awaitable<void> wait() {
    std::error_code cancelled;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }

 private:
  asio::steady_timer timer_;
};

// Owns coroutines: none outlives join(). An exception that leaves one leaves the executor's run(),
// and so reaches main.
class TaskGroup {
 public:
  explicit TaskGroup(const asio::any_io_executor& executor)
      : executor_(executor), state_(std::make_shared<State>(executor)) {}

  void spawn(asio::awaitable<void> task) {
    ++state_->running;
    asio::co_spawn(executor_, std::move(task), [state = state_](std::exception_ptr failure) {
      --state->running;
      state->ended.notify();
      if (failure) {
        std::rethrow_exception(failure);
      }
    });
  }

  asio::awaitable<void> join() {
    const auto state = state_;
    while (state->running > 0) {
      co_await state->ended.wait();
    }
  }

 private:
  struct State {
    explicit State(const asio::any_io_executor& executor) : ended(executor) {}
    std::size_t running = 0;
    Signal ended;
  };
  asio::any_io_executor executor_;
  std::shared_ptr<State> state_;  // outlives the group if its executor is torn down first
};

// Calls `expired` after `delay`, unless destroyed before: the one way in which this folder bounds a
// wait.
class Deadline {
 public:
  Deadline(const asio::any_io_executor& executor, std::chrono::milliseconds delay,
           std::function<void()> expired)
      : state_(std::make_shared<State>(State{asio::steady_timer(executor, delay), true})) {
    state_->timer.async_wait(
        [state = state_, expired = std::move(expired)](const std::error_code& error) {
          if (!error && state->armed) {
            expired();
          }
        });
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() {
    state_->armed = false;  // the timer may have expired already, its handler waiting to run
    state_->timer.cancel();
  }

 private:
  struct State {
    asio::steady_timer timer;
    bool armed;
  };
  std::shared_ptr<State> state_;
};

inline std::string seconds_text(std::chrono::nanoseconds duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(duration).count());
  return text;
}

}  // namespace causeway::inter
