// What a running relay shows and takes over HTTP. docs/wan-sim.openapi.json describes every path.
// Nobody is asked who they are, so it binds where the user says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "apps/run/http/http_server.h"
#include "apps/wan/wan_figures.h"

namespace causeway::apps {

class WanApi {
 public:
  // Both are called on `relay`, the executor of the relay's one thread. `command` throws
  // Errc::bad_scenario if the relay cannot do it.
  struct Source {
    std::function<WanFigures()> look;
    std::function<void(const std::string& line)> command;
  };
  WanApi(const inter::Endpoint& address, asio::any_io_executor relay, Source source);
  ~WanApi();

  std::uint16_t port() const { return server_.port(); }

 private:
  asio::awaitable<run::HttpAnswer> answer(run::HttpRequest request);
  run::HttpAnswer page(const std::string& path);
  run::HttpAnswer command(const std::string& path, const std::string& body);
  template <typename Result>
  Result on_relay(std::function<Result()> ask);

  asio::any_io_executor relay_;
  Source source_;
  std::atomic<bool> ending_ = false;
  run::HttpServer server_;
};

}  // namespace causeway::apps
