// Regions meet over the simulated WAN, and a coroutine waits: what needs Asio as the library has
// it.
#include <cstdio>
#include <exception>
#include <optional>

#include <wan-sim/relay/relay.h>
#include <wan-sim/scenario/scenario.h>
#include <wan-sim/virtual/internet.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

namespace {

using namespace causeway::wan_sim;
using asio::ip::tcp;

// Through the relay to `acceptor`, and one byte across.
asio::awaitable<void> cross(tcp::endpoint relay, tcp::acceptor& acceptor, char& arrived) {
  tcp::socket here(acceptor.get_executor());
  co_await here.async_connect(relay, asio::use_awaitable);
  tcp::socket there = co_await acceptor.async_accept(asio::use_awaitable);
  co_await asio::async_write(here, asio::buffer("x", 1), asio::use_awaitable);
  co_await asio::async_read(there, asio::buffer(&arrived, 1), asio::use_awaitable);
}

}  // namespace

int main(int, char** arguments) {
  const Scenario scenario = load_scenario(arguments[1]);
  asio::io_context context(1);
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Relay relay(context.get_executor(), scenario);
  const auto entry = relay.open(scenario.regions[0], scenario.regions[1],
                                [&] { return std::optional(acceptor.local_endpoint()); });
  char arrived = 0;
  asio::co_spawn(context, cross(entry, acceptor, arrived),
                 [&](std::exception_ptr) { context.stop(); });
  context.run();
  VirtualWan wan(scenario);
  const Internet internet(wan);
  std::printf("arrived: %c, sent in virtual time: %d\n", arrived,
              static_cast<int>(internet.sent_bytes(scenario.regions[0])));
  return arrived == 'x' ? 0 : 1;
}
