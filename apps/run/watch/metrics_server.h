// /metrics, /healthz and /readyz over HTTP, for Prometheus and whoever watches processes, and
// /version for who loads what a follower publishes. Nothing can be changed by it and nobody is
// asked who they are, so it binds where the user says.
//
// Whoever reaches the port may connect as often as they like and say nothing. So connections are
// few and short (who waits for a version is there for longer): a newcomer takes the place of the
// oldest from the address that has most of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "inter/mesh/mesh.h"

namespace causeway::run {

struct MetricsPages {
  // Prometheus' text format. `address`: of whoever asks.
  std::function<std::string(const std::string& address)> metrics = {};
  std::function<std::string()> not_healthy = {};  // why this process is not; empty: it is
  std::function<std::string()> not_ready = {};    // likewise of the region
  // /version, for who waits for something newer: what there is, as JSON, if that is not `seen`.
  // Empty: it is, or there is nothing. Without this function there is no such page. Must not wait.
  std::function<std::string(const std::string& seen)> version = {};
};

// On two threads of its own: not_healthy is called on one, so it must not wait for anything; what
// reads files on the other.
class MetricsServer {
 public:
  // Port 0 takes any free one. Throws ConfigError if the address cannot be bound.
  MetricsServer(const inter::Endpoint& address, MetricsPages pages);
  ~MetricsServer();

  std::uint16_t port() const;
  void tell_version();  // there is another one; any thread

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Who reads this process's metrics again and again, and for how long it must stay after the end of
// its run so that each of them reads that it ended well. Pure: told of scrapes and of the time.

class Scrapes {
 public:
  using Clock = std::chrono::steady_clock;

  // `scraper`: its address. `shows_end`: the page that it got says that the run is over.
  void add(const std::string& scraper, Clock::time_point now, bool shows_end);
  // The distant past if nobody scrapes, or all of them have seen the end. Who came once only is not
  // waited for: that may be a person who looked.
  Clock::time_point awaited_until() const;

 private:
  struct Scraper {
    Clock::time_point last;
    std::optional<Clock::duration> interval = {};
    bool saw_end = false;
  };
  std::map<std::string, Scraper> scrapers_;
};

}  // namespace causeway::run
