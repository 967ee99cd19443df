// /metrics, /healthz and /readyz over HTTP, for Prometheus and whoever watches processes. Nothing
// can be changed by it and nobody is asked who they are, so it binds where the user says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "inter/mesh/mesh.h"

namespace causeway::run {

struct MetricsPages {
  std::function<std::string()> metrics;      // Prometheus' text format
  std::function<std::string()> not_healthy;  // why this process is not; empty: it is
  std::function<std::string()> not_ready;    // likewise of the region
};

// On threads of its own, which call the pages.
class MetricsServer {
 public:
  // Port 0 takes any free one. Throws ConfigError if the address cannot be bound.
  MetricsServer(const inter::Endpoint& address, MetricsPages pages);
  ~MetricsServer();

  std::uint16_t port() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::run
