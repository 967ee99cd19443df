#include "apps/run/http/http_server.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

namespace causeway::run {
namespace {

using asio::ip::tcp;

constexpr std::size_t kBodyBytesMax = 100;

// Answers with what it was asked.
class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.start(
        [](HttpRequest request, const HttpServer::Patience&) { return echo(std::move(request)); });
  }
  static asio::awaitable<HttpAnswer> echo(HttpRequest request) {
    co_return HttpAnswer{.text = request.method + " " + request.path + " " + request.query + " " +
                                 request.body + (request.of_a_page ? " of a page" : "")};
  }
  tcp::socket connect(const std::string& said) {
    tcp::socket socket(context_);
    socket.connect({asio::ip::address_v4::loopback(), server_.port()});
    asio::write(socket, asio::buffer(said));
    return socket;
  }
  // Until the server closes.
  static std::string read(tcp::socket& socket) {
    std::string answer;
    std::error_code closed;
    asio::read(socket, asio::dynamic_buffer(answer), closed);
    return answer;
  }
  std::string ask(const std::string& request) {
    tcp::socket socket = connect(request);
    return read(socket);
  }

  asio::io_context context_;
  HttpServer server_{"test", {"127.0.0.1", 0}, {.body_bytes = kBodyBytesMax}};
};

TEST_F(HttpServerTest, HandsOverEveryPartOfARequest) {
  EXPECT_TRUE(ask("GET /a?b=c HTTP/1.1\r\nHost: here\r\n\r\n").ends_with("\r\n\r\nGET /a b=c "));
  EXPECT_TRUE(ask("POST /a HTTP/1.1\r\ncontent-LENGTH:  3\r\n\r\nxyz").ends_with("POST /a  xyz"));
  EXPECT_TRUE(ask("POST /a HTTP/1.1\r\n\r\n").ends_with("POST /a  "));
  EXPECT_TRUE(ask("POST /a HTTP/1.1\r\nOrigin: null\r\n\r\n").ends_with("of a page"));
  EXPECT_FALSE(ask("POST /a HTTP/1.1\r\nX: y\r\nX-Origin: z\r\n\r\n").ends_with("of a page"));
}

TEST_F(HttpServerTest, AProxyIsToKeepNoAnswer) {
  EXPECT_NE(ask("GET / HTTP/1.1\r\n\r\n").find("\r\nCache-Control: no-store\r\n"),
            std::string::npos);
}

TEST_F(HttpServerTest, ABodyMayComeLater) {
  tcp::socket socket = connect("POST /a HTTP/1.1\r\nContent-Length: 6\r\n\r\nabc");
  asio::write(socket, asio::buffer("def", 3));
  EXPECT_TRUE(read(socket).ends_with("POST /a  abcdef"));
}

TEST_F(HttpServerTest, OnlyABodyOfAKnownAndSmallSizeIsRead) {
  const std::string post = "POST /a HTTP/1.1\r\n";
  EXPECT_TRUE(ask(post + "Content-Length: 101\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(
      ask(post + "Content-Length: 99999999999999999999\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(ask(post + "Content-Length: -1\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(ask(post + "Content-Length: 1x\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(ask(post + "Content-Length:\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(ask(post + "Transfer-Encoding: chunked\r\n\r\n").starts_with("HTTP/1.1 411 "));
  EXPECT_TRUE(ask(post + std::string(5000, 'x')).starts_with("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, ABodyThatDoesNotComeGivesWay) {
  std::vector<tcp::socket> slow;
  for (int i = 0; i < 100; ++i)
    slow.push_back(connect("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"));
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(read(slow.front()), "") << "closed without an answer";
}

}  // namespace
}  // namespace causeway::run
