#include "wan-sim/client/http_ask.h"

#include <charconv>
#include <chrono>
#include <exception>
#include <system_error>

#include <fmt/format.h>
#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <nlohmann/json.hpp>

#include "inter/base/async.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::tcp;

constexpr std::string_view kVersion = "HTTP/1.1 ";
constexpr std::size_t kAnswerBytesMax = 1U << 20;
constexpr std::chrono::seconds kPatience{30};

asio::awaitable<void> exchange(tcp::socket& socket, const std::vector<tcp::endpoint>& servers,
                               std::string request, std::string& answer) {
  co_await asio::async_connect(socket, servers, asio::use_awaitable);
  co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
  std::error_code closed;
  co_await asio::async_read(socket, asio::dynamic_buffer(answer, kAnswerBytesMax),
                            asio::redirect_error(asio::use_awaitable, closed));
}

HttpReply reply_in(const std::string& answer) {
  HttpReply reply;
  const std::size_t blank = answer.find("\r\n\r\n");
  if (!answer.starts_with(kVersion) || blank == std::string::npos)
    throw std::system_error(std::make_error_code(std::errc::protocol_error), "no HTTP");
  std::from_chars(answer.data() + kVersion.size(), answer.data() + blank, reply.status);
  reply.body = answer.substr(blank + 4);
  while (reply.body.ends_with('\n')) reply.body.pop_back();
  return reply;
}

}  // namespace

HttpReply http_ask(const std::vector<tcp::endpoint>& servers, const std::string& path,
                   const std::optional<std::string>& body) {
  const std::string host = inter::to_text(servers.at(0));
  const std::string request =
      body ? fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{}", path, host,
                         body->size(), *body)
           : fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host);
  asio::io_context context;
  tcp::socket socket(context);
  std::string answer;
  std::exception_ptr failure;
  bool ended = false;
  asio::co_spawn(context, exchange(socket, servers, request, answer),
                 [&](std::exception_ptr error) {
                   failure = error;
                   ended = true;
                 });
  context.run_for(kPatience);
  if (failure) std::rethrow_exception(failure);
  if (!ended) throw std::system_error(std::make_error_code(std::errc::timed_out), "no answer");
  return reply_in(answer);
}

std::string problem_in(const HttpReply& reply) {
  const nlohmann::json json = nlohmann::json::parse(reply.body, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_string())
    return json["error"].get<std::string>();
  return reply.body;
}

}  // namespace causeway::wan_sim
