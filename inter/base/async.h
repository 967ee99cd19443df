// Small tools for coroutines that share one thread. Internal to inter.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/retry.h"

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
      if (failure) std::rethrow_exception(failure);
    });
  }

  bool busy() const { return state_->running > 0; }
  asio::awaitable<void> join() {
    const auto state = state_;
    while (state->running > 0) co_await state->ended.wait();
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
          if (!error && state->armed) expired();
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
  return fmt::format("{:.1f} s", std::chrono::duration<double>(duration).count());
}

// A loop that accepts connections, whatever happens to one of them, and how one is ended. Internal
// to inter and to who listens like it.
std::string to_text(const asio::ip::tcp::endpoint& endpoint);  // address and port, for logs

// Says that nothing follows, and discards what still arrives until the peer closes, so that what
// was sent before is not lost to a reset. Ends too when the socket is closed.
template <typename Socket>
asio::awaitable<void> end_politely(Socket& socket) {
  std::error_code error;
  socket.shutdown(Socket::shutdown_send, error);
  std::array<std::byte, 4096> discarded;
  while (!error && socket.is_open()) {
    co_await socket.async_read_some(asio::buffer(discarded),
                                    asio::redirect_error(asio::use_awaitable, error));
  }
}

constexpr std::chrono::milliseconds kAcceptRetry{100};

void log_cannot_accept(const std::string& where, const std::error_code& error, LogThrottle& log);

// Hands every connection to serve(socket), until the acceptor is closed. A failure is logged with
// `where` and tried again after a pause: most likely the process is out of file descriptors, which
// only time can mend. `acceptor` and `serve` outlive it.
template <typename Acceptor, typename Serve>
asio::awaitable<void> accept_all(Acceptor& acceptor, std::string where, Serve& serve,
                                 std::chrono::milliseconds pause = kAcceptRetry) {
  LogThrottle log;
  asio::steady_timer retry(acceptor.get_executor());
  while (acceptor.is_open()) {
    std::error_code error;
    typename Acceptor::protocol_type::socket socket(acceptor.get_executor());
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor.is_open()) co_return;
    if (!error) {
      serve(std::move(socket));
      continue;
    }
    log_cannot_accept(where, error, log);
    retry.expires_after(pause);
    co_await retry.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace causeway::inter
