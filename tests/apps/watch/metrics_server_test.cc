#include "apps/run/watch/metrics_server.h"

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

namespace causeway::run {
namespace {

using asio::ip::tcp;

class MetricsServerTest : public ::testing::Test {
 protected:
  // All is well unless the pages say otherwise.
  void serve(MetricsPages pages) {
    const auto nothing = [] { return std::string(); };
    if (!pages.metrics) pages.metrics = [](const std::string&) { return std::string("a 1\n"); };
    if (!pages.not_healthy) pages.not_healthy = nothing;
    if (!pages.not_ready) pages.not_ready = nothing;
    server_.emplace(inter::Endpoint{"127.0.0.1", 0}, std::move(pages));
  }
  tcp::socket connect(const std::string& said) {
    tcp::socket socket(context_);
    socket.connect({asio::ip::address_v4::loopback(), server_->port()});
    asio::write(socket, asio::buffer(said));
    return socket;
  }
  // Until the server closes.
  static std::string read(tcp::socket& socket) {
    std::string answer;
    asio::error_code closed;
    asio::read(socket, asio::dynamic_buffer(answer), closed);
    return answer;
  }
  std::string ask(const std::string& request) {
    tcp::socket socket = connect(request);
    return read(socket);
  }
  std::string get(const std::string& path) {
    return ask("GET " + path + " HTTP/1.1\r\nHost: here\r\n\r\n");
  }

  asio::io_context context_;
  std::optional<MetricsServer> server_;
};

TEST_F(MetricsServerTest, AnswersWhatItIsAsked) {
  serve({.not_ready = [] { return std::string("no leader is known"); }});
  EXPECT_TRUE(get("/metrics?x=y").ends_with("\r\n\r\na 1\n"));
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(get("/readyz").starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(get("/readyz").ends_with("\r\n\r\nno leader is known\n"));
  EXPECT_TRUE(get("/").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(ask("HEAD /healthz HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n")) << "no body";
}

TEST_F(MetricsServerTest, WhatIsNoRequestIsSaidToBeNone) {
  serve({});
  for (const std::string& rubbish : {std::string("\r\n\r\n"), std::string("GET /metrics\r\n\r\n"),
                                     "GET /" + std::string(10'000, 'x') + " HTTP/1.1\r\n"})
    EXPECT_TRUE(ask(rubbish).starts_with("HTTP/1.1 400 ")) << rubbish.substr(0, 20);
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, WhoAsksAndWaitsGivesWayToWhoComesAfterwards) {
  serve({});
  std::vector<tcp::socket> slow;
  for (int i = 0; i < 100; ++i) slow.push_back(connect("GET /metr"));
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(read(slow.front()), "") << "closed without an answer";
}

TEST_F(MetricsServerTest, APageThatHangsKeepsHealthFromNobody) {
  std::promise<void> disk;
  serve({.metrics = [answers = disk.get_future().share()](const std::string&) {
    answers.wait();
    return std::string("late 1\n");
  }});
  std::vector<tcp::socket> waiting;
  for (int i = 0; i < 8; ++i) waiting.push_back(connect("GET /metrics HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  while (!get("/metrics").ends_with("the disk does not answer\n")) {  // once all those are heard
  }
  disk.set_value();
  while (!get("/metrics").ends_with("late 1\n")) {
  }
}

TEST_F(MetricsServerTest, WhoKnowsAVersionWaitsForAnotherOne) {
  std::mutex mutex;
  std::string version;
  serve({.version = [&](const std::string& seen) {
    const std::lock_guard lock(mutex);
    return version == seen ? "" : version;
  }});
  const auto publish = [&](const std::string& next) {
    {
      const std::lock_guard lock(mutex);
      version = next;
    }
    server_->tell_version();
  };
  EXPECT_TRUE(get("/version").starts_with("HTTP/1.1 503 ")) << "there is none yet";
  tcp::socket first = connect("GET /version?after= HTTP/1.1\r\n\r\n");
  publish("7");
  EXPECT_TRUE(read(first).ends_with("\r\n\r\n7"));
  EXPECT_TRUE(get("/version").ends_with("\r\n\r\n7"));
  EXPECT_TRUE(get("/version?after=6").ends_with("\r\n\r\n7"));
  tcp::socket second = connect("GET /version?after=7 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 ")) << "meanwhile";
  publish("8");
  EXPECT_TRUE(read(second).ends_with("\r\n\r\n8"));
  tcp::socket third = connect("GET /version?after=8 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  server_.reset();
  EXPECT_TRUE(read(third).starts_with("HTTP/1.1 204 ")) << "told that there is nothing";
}

// As behind a proxy: all from one address.
TEST_F(MetricsServerTest, HundredsMayWaitForAVersion) {
  std::atomic<bool> there = false;
  serve({.version = [&](const std::string&) { return there ? "1" : ""; }});
  std::vector<tcp::socket> waiting;
  for (int i = 0; i < 300; ++i) waiting.push_back(connect(""));
  for (tcp::socket& one : waiting)
    asio::write(one, asio::buffer(std::string("GET /version?after= HTTP/1.1\r\n\r\n")));
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  there = true;
  server_->tell_version();
  for (tcp::socket& one : waiting) EXPECT_TRUE(read(one).ends_with("\r\n\r\n1"));
}

TEST_F(MetricsServerTest, WithoutVersionsThereIsNoSuchPage) {
  serve({});
  EXPECT_TRUE(get("/version").starts_with("HTTP/1.1 404 "));
}

TEST_F(MetricsServerTest, APageThatCannotBeMadeIsAnAnswerToo) {
  serve({.metrics = [](const std::string&) -> std::string {
    throw std::runtime_error("no memory");
  }});
  EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 500 "));
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace causeway::run
