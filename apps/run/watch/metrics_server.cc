#include "apps/run/watch/metrics_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "apps/run/config/config.h"
#include "inter/base/async.h"
#include "inter/base/error.h"
#include "inter/door/strangers.h"
#include "inter/mesh/resolve.h"

namespace causeway::run {
namespace {

using asio::ip::tcp;

constexpr std::size_t kConnectionsMax = 64;
constexpr std::size_t kRequestBytesMax = 4096;
constexpr std::size_t kReadingMax = 8;  // pages at a time whose files are being read
constexpr std::chrono::seconds kPatience{
    5};  // with one connection, from its first byte to its last
constexpr std::chrono::seconds kPatienceAtEnd{1};
constexpr std::chrono::seconds kVersionWait{30};  // of who waits for the next one
constexpr std::chrono::seconds kResolveBind{10};

struct Answer {
  int status = 200;
  std::string text;
  const char* type = "text/plain; charset=utf-8";
};

const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 500:
      return "Internal Server Error";
    default:
      return "Service Unavailable";
  }
}

Answer unless(const std::string& why) {
  return {.status = why.empty() ? 200 : 503, .text = (why.empty() ? "ok" : why) + "\n"};
}

struct Request {
  std::string method, path, query;
};

// Of "GET /path?query HTTP/1.1"; nothing else of a request matters here.
std::optional<Request> parse_request(const std::string& head) {
  const std::string line = head.substr(0, head.find("\r\n"));
  const std::size_t method = line.find(' ');
  const std::size_t version = line.rfind(" HTTP/1.");
  if (method == std::string::npos || version == std::string::npos || version <= method)
    return std::nullopt;
  const std::string target = line.substr(method + 1, version - method - 1);
  const std::size_t query = std::min(target.find('?'), target.size());
  return Request{line.substr(0, method), target.substr(0, query),
                 query == target.size() ? "" : target.substr(query + 1)};
}

// Whoever connected.
struct Client {
  Client(tcp::socket accepted, std::string host)
      : socket(std::move(accepted)), address(std::move(host)) {}

  const std::string& remote_host() const { return address; }
  void close(std::error_code, const std::string&) { close(); }
  void close() {
    std::error_code ignored;
    socket.close(ignored);
  }

  tcp::socket socket;
  std::string address;
};
using ClientPointer = std::shared_ptr<Client>;

}  // namespace

// One thread serves everybody and waits for nobody; files are read on another one, so that a disk
// that hangs keeps no answer back that needs none.
class MetricsServer::Implementation {
 public:
  Implementation(const inter::Endpoint& address, MetricsPages pages)
      : pages_(std::move(pages)), acceptor_(io_), clients_(kConnectionsMax) {
    listen(address);
    asio::co_spawn(io_, accept(), rethrow);
    thread_ = std::thread([this] { run(); });
  }
  // Whoever has asked gets the answer.
  ~Implementation() {
    asio::post(io_, [this] {
      std::error_code ignored;
      acceptor_.close(ignored);
      ending_ = true;
      versions_.notify();
      if (connected_ == 0) return io_.stop();
      patience_at_end_.expires_after(kPatienceAtEnd);
      patience_at_end_.async_wait([this](std::error_code) { io_.stop(); });
    });
    thread_.join();
    reading_.join();
  }
  std::uint16_t port() const { return port_; }
  void tell_version() {
    asio::post(io_, [this] { versions_.notify(); });
  }

 private:
  static void rethrow(const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  }

  // What goes wrong with one client ends that one alone.
  void run() {
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& failure) {
        spdlog::warn("metrics: {}", failure.what());
      }
    }
  }

  void listen(const inter::Endpoint& address) {
    try {
      const tcp::endpoint where = inter::listening_address(address, kResolveBind);
      acceptor_.open(where.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(where);
      acceptor_.listen();
      port_ = acceptor_.local_endpoint().port();
    } catch (const std::system_error& error) {
      inter::throw_cannot_listen(address, error.code());
    }
  }

  asio::awaitable<void> accept() {
    const auto hear = [this](tcp::socket socket) {
      std::error_code gone;
      const tcp::endpoint remote = socket.remote_endpoint(gone);
      if (gone) return;
      asio::co_spawn(
          io_, serve(std::make_shared<Client>(std::move(socket), remote.address().to_string())),
          rethrow);
    };
    co_await inter::accept_all(acceptor_, "metrics", hear);
  }

  asio::awaitable<void> serve(ClientPointer client) {
    ++connected_;
    clients_.enter(client);  // in place of somebody slower, if there are too many
    std::optional<inter::Deadline> deadline;
    const auto give = [this, client, &deadline](std::chrono::seconds patience) {
      deadline.emplace(io_.get_executor(), patience, [client] { client->close(); });
    };
    give(kPatience);
    co_await exchange(*client, give);
    clients_.leave(client);
    if (--connected_ == 0 && ending_) io_.stop();
  }

  using Give = std::function<void(std::chrono::seconds patience)>;

  asio::awaitable<void> exchange(Client& client, const Give& give) {
    std::string head;
    std::error_code error;
    co_await asio::async_read_until(client.socket, asio::dynamic_buffer(head, kRequestBytesMax),
                                    "\r\n\r\n", asio::redirect_error(asio::use_awaitable, error));
    if (error && error != asio::error::not_found) co_return;  // gone, or given up
    const std::optional<Request> request = error ? std::nullopt : parse_request(head);
    Answer answer{.status = 400, .text = "no request that this server knows\n"};
    if (request && request->path == "/version" && pages_.version) {
      give(kVersionWait + kPatience);
      answer = co_await version_after(*request);
      give(kPatience);
    } else if (request) {
      answer = co_await answer_to(*request, client.address);
    }
    std::string text = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.status, reason_phrase(answer.status), answer.type, answer.text.size());
    if (!request || request->method != "HEAD") text += answer.text;
    co_await asio::async_write(client.socket, asio::buffer(text),
                               asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_await inter::end_politely(client.socket);
  }

  asio::awaitable<Answer> answer_to(Request request, std::string address) {
    if (request.method != "GET" && request.method != "HEAD")
      co_return Answer{.status = 405, .text = "only GET\n"};
    if (request.path == "/healthz") co_return unless(pages_.not_healthy());
    if (request.path == "/readyz")
      co_return co_await read([this] { return unless(pages_.not_ready()); });
    if (request.path == "/metrics") {
      // A variable: in the co_await itself, GCC 12 would destroy the captured string twice.
      const std::function<Answer()> page = [this, address] {
        return Answer{.text = pages_.metrics(address),
                      .type = "text/plain; version=0.0.4; charset=utf-8"};
      };
      co_return co_await read(page);
    }
    co_return Answer{.status = 404, .text = "there are /metrics, /healthz and /readyz\n"};
  }

  // "/version": what there is. "/version?after=SEEN": the first that is another one.
  asio::awaitable<Answer> version_after(const Request& request) {
    constexpr std::string_view kAfter = "after=";
    const bool waits = request.query.starts_with(kAfter);
    const std::string seen = waits ? request.query.substr(kAfter.size()) : "";
    bool late = !waits;
    const inter::Deadline deadline(io_.get_executor(), kVersionWait, [this, &late] {
      late = true;
      versions_.notify();
    });
    std::string text = pages_.version(seen);
    while (text.empty() && !late && !ending_) {
      co_await versions_.wait();
      text = pages_.version(seen);
    }
    if (!text.empty()) co_return Answer{.text = std::move(text), .type = "application/json"};
    if (waits) co_return Answer{.status = 204, .text = ""};
    co_return Answer{.status = 503, .text = "there is no version yet\n"};
  }

  asio::awaitable<Answer> read(std::function<Answer()> page) {
    if (being_read_ >= kReadingMax)
      co_return Answer{.status = 503, .text = "the disk does not answer\n"};
    ++being_read_;
    Answer answer{.status = 500, .text = "the page cannot be made\n"};
    try {
      answer =
          co_await asio::co_spawn(reading_, run_on_reader(std::move(page)), asio::use_awaitable);
    } catch (const std::exception& error) {
      spdlog::warn("metrics: {}", error.what());
    }
    --being_read_;
    co_return answer;
  }

  static asio::awaitable<Answer> run_on_reader(std::function<Answer()> page) { co_return page(); }

  MetricsPages pages_;
  asio::io_context io_{1};
  asio::thread_pool reading_{1};
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  inter::Strangers<Client> clients_;
  std::size_t connected_ = 0, being_read_ = 0;
  bool ending_ = false;
  inter::Signal versions_{io_.get_executor()};
  asio::steady_timer patience_at_end_{io_};
  std::thread thread_;
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
