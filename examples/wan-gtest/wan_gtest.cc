// A client and a server on two continents: what its users see of the way between them, tested.
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include <causeway/wan.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kRoundTrip = 80ms;
constexpr char kScenario[] = R"(
regions = ["eu", "us"]
[defaults]
rtt_ms = 80
rate_mbit_s = 50
)";

// The program under test, in eu: answers a number with as many letters and a line end.
class Server {
 public:
  Server() : acceptor_(context_, {asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::thread([this] {
      for (std::size_t letters = 1; letters > 0;) {
        tcp::iostream client(acceptor_.accept());
        if (client >> letters) client << std::string(letters, 'x') << '\n' << std::flush;
      }
    });
  }
  ~Server() {
    tcp::iostream last(acceptor_.local_endpoint());
    last << 0 << '\n' << std::flush;
    thread_.join();
  }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }

 private:
  asio::io_context context_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

// Its client, in us: the answer, or nothing if the connection breaks.
std::string ask(std::uint16_t port, std::size_t letters) {
  tcp::iostream server(tcp::endpoint(asio::ip::address_v4::loopback(), port));
  std::string answer;
  server << letters << '\n' << std::flush;
  std::getline(server, answer);
  return answer;
}

class Overseas : public testing::Test {
 protected:
  // How long it takes to ask. A test that compares this with more than what the WAN takes at least
  // measures the machine, too.
  std::chrono::duration<double> seconds_of(std::size_t letters) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ask(port_, letters).size(), letters);
    return std::chrono::steady_clock::now() - begin;
  }

  Server server_;
  causeway::Wan wan_{kScenario, {{"us", "eu", server_.address()}}, {.program = CAUSEWAY_PROGRAM}};
  const std::uint16_t port_ = wan_.port("us", "eu");
};

TEST_F(Overseas, AnAnswerTakesARoundTripAndConnectingAnother) {
  EXPECT_GE(seconds_of(10), 2 * kRoundTrip);
}

TEST_F(Overseas, AMegabyteTakesWhatTheRateSays) {
  wan_.change("eu", "us", {{"rate_mbit_s", 20}});
  EXPECT_GE(seconds_of(1'000'000), 2 * kRoundTrip + 400ms);
  EXPECT_GT(wan_.link("eu", "us").bytes, 1'000'000U);
}

TEST_F(Overseas, ACutIsNoticedAndOver) {
  wan_.cut("eu", "us");
  EXPECT_EQ(ask(port_, 10), "");
  wan_.heal("eu", "us");
  EXPECT_EQ(ask(port_, 10), "xxxxxxxxxx");
}

}  // namespace
