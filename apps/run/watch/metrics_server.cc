#include "apps/run/watch/metrics_server.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include <asio/post.hpp>

#include "apps/run/http/http_server.h"
#include "inter/base/async.h"

namespace causeway::run {
namespace {

constexpr std::chrono::seconds kPatience{5};      // with an answer that is ready
constexpr std::chrono::seconds kVersionWait{30};  // of who waits for the next one
// When there is a version, all that waited for it come back at once.
constexpr HttpLimits kLimitsWithVersions{.connections = 512};

HttpAnswer unless(const std::string& why) {
  return {.status = why.empty() ? 200 : 503, .text = (why.empty() ? "ok" : why) + "\n"};
}

}  // namespace

// Files are read on the server's other thread, so that a disk that hangs keeps no answer back that
// needs none.
class MetricsServer::Implementation {
 public:
  Implementation(const inter::Endpoint& address, MetricsPages pages)
      : pages_(std::move(pages)),
        server_("metrics", address, pages_.version ? kLimitsWithVersions : HttpLimits{}),
        versions_(server_.executor()) {
    server_.start([this](HttpRequest request, const HttpServer::Patience& give) {
      return answer_to(std::move(request), give);
    });
  }
  ~Implementation() {
    server_.stop([this] { versions_.notify(); });
  }
  std::uint16_t port() const { return server_.port(); }
  void tell_version() {
    asio::post(server_.executor(), [this] { versions_.notify(); });
  }

 private:
  asio::awaitable<HttpAnswer> answer_to(HttpRequest request, HttpServer::Patience give) {
    if (request.path == "/version" && pages_.version) {
      give(kVersionWait + kPatience);
      HttpAnswer answer = co_await version_after(request);
      give(kPatience);
      co_return answer;
    }
    if (request.method != "GET" && request.method != "HEAD")
      co_return HttpAnswer{.status = 405, .text = "only GET\n"};
    if (request.path == "/healthz") co_return unless(pages_.not_healthy());
    if (request.path == "/readyz")
      co_return co_await read([this] { return unless(pages_.not_ready()); });
    if (request.path == "/metrics") {
      // A variable: in the co_await itself, GCC 12 would destroy the captured string twice.
      const std::function<HttpAnswer()> page = [this, address = request.address] {
        return HttpAnswer{.text = pages_.metrics(address),
                          .type = "text/plain; version=0.0.4; charset=utf-8"};
      };
      co_return co_await read(page);
    }
    co_return HttpAnswer{.status = 404, .text = "there are /metrics, /healthz and /readyz\n"};
  }

  // "/version": what there is. "/version?after=SEEN": the first that is another one.
  asio::awaitable<HttpAnswer> version_after(const HttpRequest& request) {
    constexpr std::string_view kAfter = "after=";
    const bool waits = request.query.starts_with(kAfter);
    const std::string seen = waits ? request.query.substr(kAfter.size()) : "";
    bool late = !waits;
    const inter::Deadline deadline(server_.executor(), kVersionWait, [this, &late] {
      late = true;
      versions_.notify();
    });
    std::string text = pages_.version(seen);
    while (text.empty() && !late && !server_.ending()) {
      co_await versions_.wait();
      text = pages_.version(seen);
    }
    if (!text.empty()) co_return HttpAnswer{.text = std::move(text), .type = "application/json"};
    if (waits) co_return HttpAnswer{.status = 204, .text = ""};
    co_return HttpAnswer{.status = 503, .text = "there is no version yet\n"};
  }

  asio::awaitable<HttpAnswer> read(std::function<HttpAnswer()> page) {
    return server_.make(std::move(page), "the disk does not answer\n");
  }

  MetricsPages pages_;
  HttpServer server_;
  inter::Signal versions_;
};

MetricsServer::MetricsServer(const inter::Endpoint& address, MetricsPages pages)
    : implementation_(std::make_unique<Implementation>(address, std::move(pages))) {}
MetricsServer::~MetricsServer() = default;
std::uint16_t MetricsServer::port() const {
  return implementation_->port();
}
void MetricsServer::tell_version() {
  implementation_->tell_version();
}

namespace {

// Bounds of twice the time between two scrapes: a busy host is late, and a stopped one is not
// waited for.
constexpr std::chrono::seconds kAwaitedMin{5};
constexpr std::chrono::minutes kAwaitedMax{2};
constexpr std::size_t kScrapersMax = 64;

}  // namespace

void Scrapes::add(const std::string& scraper, Clock::time_point now, bool shows_end) {
  if (scrapers_.size() >= kScrapersMax && !scrapers_.contains(scraper)) {
    scrapers_.erase(std::ranges::min_element(scrapers_, {},
                                             [](const auto& known) { return known.second.last; }));
  }
  const auto [known, is_new] = scrapers_.try_emplace(scraper, Scraper{.last = now});
  if (!is_new) known->second.interval = now - known->second.last;
  known->second.last = now;
  known->second.saw_end = shows_end;
}

Scrapes::Clock::time_point Scrapes::awaited_until() const {
  Clock::time_point until = Clock::time_point::min();
  for (const auto& [address, scraper] : scrapers_) {
    if (!scraper.interval || scraper.saw_end) continue;
    until = std::max(until, scraper.last + std::clamp<Clock::duration>(2 * *scraper.interval,
                                                                       kAwaitedMin, kAwaitedMax));
  }
  return until;
}

}  // namespace causeway::run
