#include "wan-sim/client/wan.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

namespace causeway {
namespace {

using asio::ip::tcp;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

const std::string kScenario = "regions = ['eu', 'us']\n[defaults]\nrtt_ms = 4\nrate_mbit_s = 200\n";

// Sends a byte back to each connection in turn, until it is closed.
class Echo {
 public:
  Echo() : acceptor_(context_, {asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::thread([this] { serve(); });
  }
  ~Echo() {
    ended_ = true;
    std::error_code ignored;
    tcp::socket(context_).connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }

 private:
  void serve() {
    while (true) {
      tcp::socket socket = acceptor_.accept();
      if (ended_) return;
      char byte = 0;
      std::error_code gone;
      asio::read(socket, asio::buffer(&byte, 1), gone);
      asio::write(socket, asio::buffer(&byte, 1), gone);
    }
  }
  asio::io_context context_;
  tcp::acceptor acceptor_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

class WanTest : public testing::Test {
 protected:
  std::vector<Wan::Map> maps() const { return {{"us", "eu", server_.address()}}; }
  // The error with which a connection ends before its byte is back, or none.
  std::error_code cross(std::uint16_t port) {
    asio::io_context context;
    tcp::socket socket(context);
    std::error_code error;
    socket.connect({asio::ip::address_v4::loopback(), port}, error);
    char byte = 'x';
    if (!error) asio::write(socket, asio::buffer(&byte, 1), error);
    if (!error) asio::read(socket, asio::buffer(&byte, 1), error);
    return error;
  }

  Echo server_;
  const WanOptions options_{.program = CAUSEWAY_PROGRAM};
};

TEST_F(WanTest, IsThereAsLongAsTheObject) {
  std::uint16_t port = 0;
  {
    const Wan wan(kScenario, maps(), options_);
    port = wan.port("us", "eu");
    EXPECT_EQ(cross(port), std::error_code());
    EXPECT_EQ(wan.link("us", "eu").connections, 1U);
    EXPECT_FALSE(wan.verdict().text.empty());
    EXPECT_THAT(wan.url(), HasSubstr("http://127.0.0.1:"));
  }
  EXPECT_EQ(cross(port), asio::error::connection_refused);
}

TEST_F(WanTest, CutsHealsPausesAndChanges) {
  Wan wan(kScenario, maps(), options_);
  const auto port = wan.port("us", "eu");
  wan.cut("eu", "us");
  EXPECT_TRUE(wan.link("us", "eu").refused);
  EXPECT_NE(cross(port), std::error_code());
  wan.heal("eu", "us");
  EXPECT_EQ(cross(port), std::error_code());
  wan.cut("eu", "us", 1000s);
  wan.heal();
  EXPECT_EQ(cross(port), std::error_code());
  wan.pause("eu", "us", 10ms);
  EXPECT_EQ(cross(port), std::error_code());
  wan.change("eu", "us", {{"rate_mbit_s", 2.5}, {"queue_kib", 128}});
  wan.command("link = ['us', 'eu'], delay_ms = 9");
  EXPECT_EQ(wan.link("eu", "us").rate_mbit_s, 2.5);
  EXPECT_EQ(wan.link("us", "eu").delay_ms, 9);
  EXPECT_EQ(wan.link("eu", "us").delay_ms, 2);
}

TEST_F(WanTest, TakesAFileAPortAndARecording) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("causeway-wan-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  std::ofstream(directory / "wan.toml") << kScenario;
  {
    Wan wan(directory / "wan.toml", {{"us", "eu", server_.address() + ",listen=127.0.0.2:0"}},
            {.program = CAUSEWAY_PROGRAM, .record = directory / "events.jsonl"});
    EXPECT_EQ(wan.address("us", "eu").host, "127.0.0.2");
    wan.cut("eu", "us", 10ms);
  }
  std::ifstream record(directory / "events.jsonl");
  const std::string events(std::istreambuf_iterator<char>(record), {});
  EXPECT_THAT(events, HasSubstr("refuse"));
  std::filesystem::remove_all(directory);
}

TEST_F(WanTest, SaysWhatIsWrong) {
  EXPECT_THAT([&] { Wan(kScenario + "spede = 3\n", maps(), options_); },
              ThrowsMessage<std::runtime_error>(HasSubstr("unknown key")));
  EXPECT_THAT(
      [&] {
        Wan(kScenario, {{"us", "mars", "127.0.0.1:1"}}, options_);
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("no link from")));
  EXPECT_THAT([&] { Wan(kScenario, maps(), {.program = "/none/causeway"}); },
              ThrowsMessage<std::system_error>(HasSubstr("cannot run /none/causeway")));
  EXPECT_THAT([&] { Wan(kScenario, maps(), {.program = "true"}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("true did not start")));
  Wan wan(kScenario, maps(), options_);
  EXPECT_THAT([&] { wan.cut("eu", "mars"); }, ThrowsMessage<std::runtime_error>(HasSubstr("mars")));
  EXPECT_THAT(
      [&] {
        wan.change("eu", "us", {{"spede", 3}});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("spede")));
  EXPECT_THROW(wan.port("eu", "us"), std::out_of_range);
  EXPECT_THROW(wan.link("eu", "mars"), std::out_of_range);
}

}  // namespace
}  // namespace causeway
