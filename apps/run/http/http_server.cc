#include "apps/run/http/http_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "inter/base/async.h"
#include "inter/base/error.h"
#include "inter/door/strangers.h"
#include "inter/mesh/resolve.h"

namespace causeway::run {
namespace {

using asio::ip::tcp;

constexpr std::size_t kHeadBytesMax = 4096;
constexpr std::size_t kMakingMax = 8;  // answers at a time that may have to wait
constexpr std::chrono::seconds kPatience{
    5};  // with one connection, from its first byte to its last
constexpr std::chrono::seconds kPatienceAtEnd{1};
constexpr std::chrono::seconds kResolveBind{10};

const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 500:
      return "Internal Server Error";
    default:
      return "Service Unavailable";
  }
}

// The value of a header by its name in lower case; none if it is not there.
std::optional<std::string> header_in(const std::string& head, std::string_view name) {
  const auto lower = [](unsigned char c) { return static_cast<char>(std::tolower(c)); };
  std::size_t end = head.find("\r\n");  // of the line before
  while (end != std::string::npos && end + 2 < head.size()) {
    const std::size_t begin = end + 2;
    end = head.find("\r\n", begin);
    std::string line = head.substr(begin, end - begin);
    const std::size_t colon = std::min(line.find(':'), line.size());
    std::transform(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), line.begin(),
                   lower);
    if (line.substr(0, colon) != name) continue;
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return std::nullopt;
}

// Of "GET /path?query HTTP/1.1" and what follows it.
std::optional<HttpRequest> parse_request(const std::string& head) {
  const std::string line = head.substr(0, head.find("\r\n"));
  const std::size_t method = line.find(' ');
  const std::size_t version = line.rfind(" HTTP/1.");
  if (method == std::string::npos || version == std::string::npos || version <= method)
    return std::nullopt;
  const std::string target = line.substr(method + 1, version - method - 1);
  const std::size_t query = std::min(target.find('?'), target.size());
  HttpRequest request;
  request.method = line.substr(0, method);
  request.path = target.substr(0, query);
  request.query = query == target.size() ? "" : target.substr(query + 1);
  request.of_a_page = header_in(head, "origin").has_value();
  return request;
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

class HttpServer::Implementation {
 public:
  Implementation(std::string name, const inter::Endpoint& address, const HttpLimits& limits)
      : name_(std::move(name)),
        body_bytes_max_(limits.body_bytes),
        acceptor_(io_),
        clients_(limits.connections, limits.connections) {
    listen(address);
  }
  ~Implementation() { stop({}); }

  void start(Handler handler) {
    handler_ = std::move(handler);
    making_.emplace(1);
    asio::co_spawn(io_, accept(), rethrow);
    thread_ = std::thread([this] { run(); });
  }
  void stop(const std::function<void()>& on_ending) {
    if (!thread_.joinable()) return;
    asio::post(io_, [this, on_ending] {
      std::error_code ignored;
      acceptor_.close(ignored);
      ending_ = true;
      if (on_ending) on_ending();
      if (connected_ == 0) return io_.stop();
      patience_at_end_.expires_after(kPatienceAtEnd);
      patience_at_end_.async_wait([this](std::error_code) { io_.stop(); });
    });
    thread_.join();
    making_->join();
  }
  std::uint16_t port() const { return port_; }
  asio::any_io_executor executor() { return io_.get_executor(); }
  bool ending() const { return ending_; }

  asio::awaitable<HttpAnswer> make(std::function<HttpAnswer()> answer, std::string busy) {
    if (being_made_ >= kMakingMax) co_return HttpAnswer{.status = 503, .text = std::move(busy)};
    ++being_made_;
    HttpAnswer made{.status = 500, .text = "the page cannot be made\n"};
    try {
      made = co_await asio::co_spawn(*making_, call(std::move(answer)), asio::use_awaitable);
    } catch (const std::exception& error) {
      spdlog::warn("{}: {}", name_, error.what());
    }
    --being_made_;
    co_return made;
  }

 private:
  static asio::awaitable<HttpAnswer> call(std::function<HttpAnswer()> answer) {
    co_return answer();
  }
  static void rethrow(const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  }

  // What goes wrong with one client ends that one alone.
  void run() {
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& failure) {
        spdlog::warn("{}: {}", name_, failure.what());
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
    co_await inter::accept_all(acceptor_, name_, hear);
  }

  asio::awaitable<void> serve(ClientPointer client) {
    ++connected_;
    clients_.enter(client);  // in place of somebody slower, if there are too many
    std::optional<inter::Deadline> deadline;
    const Patience give = [this, client, &deadline](std::chrono::seconds patience) {
      deadline.emplace(io_.get_executor(), patience, [client] { client->close(); });
    };
    give(kPatience);
    co_await exchange(*client, give);
    clients_.leave(client);
    if (--connected_ == 0 && ending_) io_.stop();
  }

  asio::awaitable<void> exchange(Client& client, const Patience& give) {
    std::string head;
    std::error_code error;
    const std::size_t bytes = co_await asio::async_read_until(
        client.socket, asio::dynamic_buffer(head, kHeadBytesMax), "\r\n\r\n",
        asio::redirect_error(asio::use_awaitable, error));
    if (error && error != asio::error::not_found) co_return;  // gone, or given up
    std::optional<HttpRequest> request = error ? std::nullopt : parse_request(head);
    HttpAnswer answer{.status = 400, .text = "no request that this server knows\n"};
    if (request) {
      request->address = client.address;
      const std::optional<HttpAnswer> refusal = co_await read_body(client, head, bytes, *request);
      if (refusal)
        answer = *refusal;
      else
        answer = co_await handler_(*request, give);
    }
    // Every page is of this moment: a proxy between must keep none.
    std::string text = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n",
        answer.status, reason_phrase(answer.status), answer.type, answer.text.size());
    if (!request || request->method != "HEAD") text += answer.text;
    co_await asio::async_write(client.socket, asio::buffer(text),
                               asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_await inter::end_politely(client.socket);
  }

  // `read`: what came of the request, its head the first `head_bytes`. Answers what is refused.
  asio::awaitable<std::optional<HttpAnswer>> read_body(Client& client, const std::string& read,
                                                       std::size_t head_bytes,
                                                       HttpRequest& request) {
    if (body_bytes_max_ == 0 || request.method != "POST") co_return std::nullopt;
    const std::string head = read.substr(0, head_bytes);
    if (header_in(head, "transfer-encoding"))
      co_return HttpAnswer{.status = 411, .text = "say Content-Length, and send no chunks\n"};
    const std::string length = header_in(head, "content-length").value_or("0");
    std::size_t bytes = 0;
    const auto [end, bad] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (bad == std::errc::result_out_of_range || bytes > body_bytes_max_) {
      co_return HttpAnswer{.status = 413,
                           .text = fmt::format("at most {} bytes\n", body_bytes_max_)};
    }
    if (bad != std::errc() || end != length.data() + length.size())
      co_return HttpAnswer{.status = 400, .text = "Content-Length is no number\n"};
    request.body = read.substr(head_bytes, bytes);
    std::error_code error;
    const std::size_t here = request.body.size();
    request.body.resize(bytes);
    co_await asio::async_read(client.socket, asio::buffer(request.body) + here,
                              asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return HttpAnswer{.status = 400, .text = "the body is not whole\n"};
    co_return std::nullopt;
  }

  std::string name_;
  std::size_t body_bytes_max_;
  Handler handler_;
  asio::io_context io_{1};
  std::optional<asio::thread_pool> making_;  // from the start on
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  inter::Strangers<Client> clients_;
  std::size_t connected_ = 0, being_made_ = 0;
  bool ending_ = false;
  asio::steady_timer patience_at_end_{io_};
  std::thread thread_;
};

HttpServer::HttpServer(std::string name, const inter::Endpoint& address, const HttpLimits& limits)
    : implementation_(std::make_unique<Implementation>(std::move(name), address, limits)) {}
HttpServer::~HttpServer() = default;
void HttpServer::start(Handler handler) {
  implementation_->start(std::move(handler));
}
void HttpServer::stop(std::function<void()> on_ending) {
  implementation_->stop(on_ending);
}
std::uint16_t HttpServer::port() const {
  return implementation_->port();
}
asio::any_io_executor HttpServer::executor() {
  return implementation_->executor();
}
bool HttpServer::ending() const {
  return implementation_->ending();
}
asio::awaitable<HttpAnswer> HttpServer::make(std::function<HttpAnswer()> answer, std::string busy) {
  return implementation_->make(std::move(answer), std::move(busy));
}

}  // namespace causeway::run
