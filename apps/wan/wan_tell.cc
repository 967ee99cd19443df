#include "apps/wan/wan_tell.h"

#include <chrono>
#include <map>
#include <system_error>

#include <fmt/format.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <nlohmann/json.hpp>

#include "apps/wan/wan_map.h"
#include "wan-sim/live/control.h"

namespace causeway::apps {
namespace {

using asio::ip::tcp;

constexpr std::string_view kScheme = "http://";
constexpr std::size_t kAnswerBytesMax = 1U << 20;
constexpr std::chrono::seconds kPatience{30};

const std::map<std::string, std::string> kQuestions{
    {"stats", "/links"}, {"links", "/links"}, {"maps", "/maps"}, {"verdict", "/verdict"}};

std::string request_for(const std::string& host, const std::string& command) {
  const auto question = kQuestions.find(command);
  if (question != kQuestions.end())
    return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", question->second, host);
  return fmt::format("POST /command HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{}", host,
                     command.size(), command);
}

asio::awaitable<void> exchange(tcp::socket& socket, tcp::endpoint where, std::string request,
                               std::string& answer) {
  co_await socket.async_connect(where, asio::use_awaitable);
  co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
  std::error_code closed;
  co_await asio::async_read(socket, asio::dynamic_buffer(answer, kAnswerBytesMax),
                            asio::redirect_error(asio::use_awaitable, closed));
}

// What people read: the page, or the text of what the server says of a command.
std::string said_in(const std::string& answer) {
  const std::size_t blank = answer.find("\r\n\r\n");
  std::string body = blank == std::string::npos ? "" : answer.substr(blank + 4);
  while (body.ends_with('\n')) body.pop_back();
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_string())
    return "error: " + json["error"].get<std::string>();
  if (!answer.starts_with("HTTP/1.1 200 ")) return "error: " + body;
  return json.is_object() && json.contains("ok") ? "ok" : body;
}

std::string tell_over_http(const std::string& where, const std::string& command) {
  std::string host = where.substr(kScheme.size());
  while (host.ends_with('/')) host.pop_back();
  asio::io_context context;
  tcp::socket socket(context);
  std::string answer;
  const auto to = resolve_for("--tell", inter::parse_endpoint(host));
  std::exception_ptr failure;
  asio::co_spawn(context, exchange(socket, to, request_for(host, command), answer),
                 [&failure](std::exception_ptr error) { failure = error; });
  context.run_for(kPatience);
  if (failure) std::rethrow_exception(failure);
  if (answer.empty())
    throw std::system_error(std::make_error_code(std::errc::timed_out), "no answer");
  return said_in(answer);
}

}  // namespace

std::string wan_tell(const std::string& where, const std::string& command) {
  if (!where.starts_with(kScheme)) return wan_sim::tell(where, command);
  try {
    return tell_over_http(where, command);
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(),
                            where + ": nobody answers; start wan-sim with --http there");
  }
}

}  // namespace causeway::apps
