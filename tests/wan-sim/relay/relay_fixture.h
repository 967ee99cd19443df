// A relay between regions "a" and "b", a server behind it, and clients, all on one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "wan-sim/relay/relay.h"

namespace causeway::wan_sim {

using asio::ip::tcp;

inline Scenario two_regions(const LinkProfile& profile) {
  Scenario scenario;
  scenario.regions = {"a", "b"};
  scenario.links[{"a", "b"}] = scenario.links[{"b", "a"}] = profile;
  return scenario;
}

// Fast enough for unit tests, with everything that could disturb a stream.
inline LinkProfile fast(std::chrono::microseconds delay = std::chrono::microseconds{200}) {
  LinkProfile profile;
  profile.rate_bytes_per_s = 200e6;
  profile.delay = delay;
  return profile;
}

class RelayTest : public testing::Test {
 protected:
  void use(const LinkProfile& profile) { use(two_regions(profile)); }
  void use(const Scenario& scenario) {
    relay_ = std::make_unique<Relay>(context_.get_executor(), scenario);
    port_ = relay_->open("a", "b", [this] { return upstream_; });
  }

  // Runs handlers until `done`; a test that never gets there ends by the test runner's limit.
  void run_until(const std::function<bool()>& done) {
    while (!done()) ASSERT_EQ(context_.run_one(), 1U);
  }

  // Runs coroutines to their end and rethrows what they throw.
  void run(std::vector<asio::awaitable<void>> coroutines) {
    std::size_t left = coroutines.size();
    for (auto& coroutine : coroutines) {
      asio::co_spawn(context_, std::move(coroutine), [&left](std::exception_ptr error) {
        --left;
        if (error) std::rethrow_exception(error);
      });
    }
    run_until([&left] { return left == 0; });
  }
  void run(asio::awaitable<void> coroutine) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(coroutine));
    run(std::move(one));
  }

  asio::awaitable<tcp::socket> dial() {
    tcp::socket socket(context_);
    co_await socket.async_connect(port_, asio::use_awaitable);
    co_return socket;
  }
  asio::awaitable<tcp::socket> accept() {
    co_return co_await acceptor_.async_accept(asio::use_awaitable);
  }
  // One connection through the relay, both ends.
  std::pair<tcp::socket, tcp::socket> connected() {
    tcp::socket client(context_), server(context_);
    std::vector<asio::awaitable<void>> both;
    both.push_back([](auto self, tcp::socket& to) -> asio::awaitable<void> {
      to = co_await self->dial();
    }(this, client));
    both.push_back([](auto self, tcp::socket& to) -> asio::awaitable<void> {
      to = co_await self->accept();
    }(this, server));
    run(std::move(both));
    return {std::move(client), std::move(server)};
  }

  static asio::awaitable<void> send(tcp::socket& socket, std::string text) {
    co_await asio::async_write(socket, asio::buffer(text), asio::use_awaitable);
  }
  static asio::awaitable<void> send_and_finish(tcp::socket& socket, std::string text) {
    co_await send(socket, std::move(text));
    socket.shutdown(tcp::socket::shutdown_send);
  }
  // Until the other side ends; `error` says how.
  static asio::awaitable<void> receive_all(tcp::socket& socket, std::string& text,
                                           std::error_code& error) {
    std::vector<char> chunk(100'000);
    while (!error) {
      const std::size_t bytes = co_await socket.async_read_some(
          asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, error));
      text.append(chunk.data(), bytes);
    }
  }
  static asio::awaitable<void> receive(tcp::socket& socket, std::string& text, std::size_t bytes) {
    text.resize(bytes);
    co_await asio::async_read(socket, asio::buffer(text), asio::use_awaitable);
  }
  // How the next read on a fresh connection through the relay ends.
  std::error_code outcome_of_dialling() {
    std::error_code error;
    run([](auto self, std::error_code& result) -> asio::awaitable<void> {
      tcp::socket socket = co_await self->dial();
      std::string nothing;
      co_await receive_all(socket, nothing, result);
    }(this, error));
    return error;
  }

  DirectedStats stats(const std::string& from, const std::string& to) {
    return relay_->stats().at({from, to});
  }

  asio::io_context context_;
  tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
  std::optional<tcp::endpoint> upstream_ = acceptor_.local_endpoint();
  tcp::endpoint port_;
  std::unique_ptr<Relay> relay_;
};

inline std::string noise(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  for (char& c : text)
    c = static_cast<char>((seed = seed * 6364136223846793005U + 1442695040888963407U) >> 56);
  return text;
}

}  // namespace causeway::wan_sim
