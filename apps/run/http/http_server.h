// What a program shows of itself over HTTP, and takes: one request a connection, and small ones.
//
// Whoever reaches the port may connect as often as they like and say nothing. So connections are
// few and short: a newcomer takes the place of the oldest from the address that has most of them,
// and what a request may hold is bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "inter/mesh/mesh.h"

namespace causeway::run {

struct HttpRequest {
  std::string method, path, query, body;
  std::string address;     // of whoever asks
  bool of_a_page = false;  // a browser sends it because a web page says so: it has an Origin
};

struct HttpAnswer {
  int status = 200;
  std::string text;
  const char* type = "text/plain; charset=utf-8";
};

struct HttpLimits {
  std::size_t body_bytes = 0;    // of a request; none: bodies are not read
  std::size_t connections = 64;  // at a time; beyond, the oldest of a crowd is closed
};

// On two threads of its own: one serves everybody and waits for nobody; on the other one answers
// are made that may have to wait.
class HttpServer {
 public:
  // Gives this connection so much time from now.
  using Patience = std::function<void(std::chrono::seconds)>;
  // Called on the serving thread: must wait for nothing but with co_await.
  using Handler =
      std::function<asio::awaitable<HttpAnswer>(HttpRequest request, const Patience& patience)>;

  // Listens and answers nobody yet: it has no threads before start(). `name`: for the log. Port 0
  // takes any free one. Throws std::system_error if the address cannot be bound.
  HttpServer(std::string name, const inter::Endpoint& address, const HttpLimits& limits = {});
  ~HttpServer();

  void start(Handler handler);
  // Whoever has asked gets the answer, but is not waited for long. `on_ending` is called on the
  // serving thread, to wake handlers that wait. Call it before what handlers use goes.
  void stop(std::function<void()> on_ending = {});

  std::uint16_t port() const;
  asio::any_io_executor executor();
  bool ending() const;  // on the serving thread

  // Makes an answer on the other thread. With too many of them waiting: 503 and `busy`.
  asio::awaitable<HttpAnswer> make(std::function<HttpAnswer()> answer, std::string busy);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::run
