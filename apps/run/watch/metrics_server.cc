#include "apps/run/watch/metrics_server.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include <httplib.h>

#include "apps/run/config/config.h"

namespace causeway::run {
namespace {

constexpr std::size_t kThreads = 2;
constexpr std::size_t kRequestBytesMax = 4096;
constexpr std::chrono::seconds kPatience{5};  // with somebody who sends or reads slowly

httplib::Server::Handler unless(std::function<std::string()> why) {
  return [why = std::move(why)](const httplib::Request&, httplib::Response& response) {
    const std::string reason = why();
    response.status = reason.empty() ? 200 : 503;
    response.set_content((reason.empty() ? "ok" : reason) + "\n", "text/plain");
  };
}

}  // namespace

class MetricsServer::Implementation {
 public:
  Implementation(const inter::Endpoint& address, MetricsPages pages) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kRequestBytesMax);
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.Get("/metrics", [metrics = std::move(pages.metrics)](const httplib::Request&,
                                                                 httplib::Response& response) {
      response.set_content(metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    server_.Get("/healthz", unless(std::move(pages.not_healthy)));
    server_.Get("/readyz", unless(std::move(pages.not_ready)));
    bind(address);
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      ended_ = true;
    });
    while (!server_.is_running() && !ended_) std::this_thread::yield();  // stop() ends what runs
  }
  ~Implementation() {
    server_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return port_; }

 private:
  void bind(const inter::Endpoint& address) {
    const int bound = address.port == 0 ? server_.bind_to_any_port(address.host)
                      : server_.bind_to_port(address.host, address.port) ? address.port
                                                                         : -1;
    if (bound <= 0) {
      throw ConfigError("--metrics " + inter::to_string(address) +
                        ": cannot be bound; name an address of this host and a free port");
    }
    port_ = static_cast<std::uint16_t>(bound);
  }

  httplib::Server server_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

MetricsServer::MetricsServer(const inter::Endpoint& address, MetricsPages pages)
    : implementation_(std::make_unique<Implementation>(address, std::move(pages))) {}
MetricsServer::~MetricsServer() = default;
std::uint16_t MetricsServer::port() const {
  return implementation_->port();
}

}  // namespace causeway::run
