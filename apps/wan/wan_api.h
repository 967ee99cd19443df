// What a running WAN shows and takes over HTTP, whichever engine runs it.
// docs/wan-sim.openapi.json describes every path. Nobody is asked who they are, so it binds where
// the user says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include <asio/any_io_executor.hpp>

#include "apps/run/http/http_server.h"
#include "apps/wan/wan_figures.h"

namespace causeway::apps {

class WanApi {
 public:
  // The functions are called on `executor`, that of the engine's one thread. Those that take
  // something throw Errc::bad_scenario if it cannot be done.
  struct Source {
    asio::any_io_executor executor;
    wan_sim::Engine engine;
    std::function<WanFigures()> look;
    std::function<void(const std::string& line)> command;
    std::function<void(bool on)> capture;
  };
  // Binds the address, and answers nobody yet: an engine may first move this process into another
  // network, where nobody would find the port, and have it without other threads for that.
  explicit WanApi(const inter::Endpoint& address);
  ~WanApi();
  void start(Source source);

  std::uint16_t port() const { return server_.port(); }

 private:
  asio::awaitable<run::HttpAnswer> answer(run::HttpRequest request);
  bool acts(const std::string& path) const;
  run::HttpAnswer page(const std::string& path);
  run::HttpAnswer act(const std::string& path, const std::string& body);
  std::function<void()> act_of(const std::string& path, const std::string& body) const;
  template <typename Result>
  Result on_engine(std::function<Result()> ask);

  Source source_;
  std::atomic<bool> ending_ = false;
  run::HttpServer server_;
};

}  // namespace causeway::apps
