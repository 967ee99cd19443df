// How exact the WAN relay is: rate, round trip, its own lateness, and what it costs, over loopback.
//
// The relay runs on its own thread; a sender and a receiver with blocking sockets on two others.
// Beside every figure stands what was asked for.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "wan-sim/base/verdict.h"
#include "wan-sim/relay/relay.h"

namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using causeway::wan_sim::LinkProfile;
using causeway::wan_sim::Relay;
using causeway::wan_sim::Scenario;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double cpu_seconds_of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A relay from "a" to "b" on a thread of its own, and one connection through it.
class Bench {
 public:
  explicit Bench(const LinkProfile& profile)
      : acceptor_(clients_, {asio::ip::address_v4::loopback(), 0}) {
    Scenario scenario;
    scenario.regions = {"a", "b"};
    scenario.links[{"a", "b"}] = scenario.links[{"b", "a"}] = profile;
    relay_ = std::make_unique<Relay>(context_.get_executor(), scenario);
    const auto upstream = acceptor_.local_endpoint();
    const auto port = relay_->open("a", "b", [upstream] { return upstream; });
    thread_ = std::thread([this] {
      causeway::wan_sim::make_this_thread_punctual();
      context_.run();
      relay_cpu_s_ = cpu_seconds_of_this_thread();
    });
    near_.connect(port);
    acceptor_.accept(far_);
    near_.set_option(tcp::no_delay(true));
    far_.set_option(tcp::no_delay(true));
    round_trip();  // the handshake is over when this is
  }
  ~Bench() { stop(); }

  double round_trip() {
    char byte = 'x';
    const auto start = Clock::now();
    asio::write(near_, asio::buffer(&byte, 1));
    asio::read(far_, asio::buffer(&byte, 1));
    asio::write(far_, asio::buffer(&byte, 1));
    asio::read(near_, asio::buffer(&byte, 1));
    return seconds(Clock::now() - start);
  }

  struct Transfer {
    double rate_bytes_per_s;  // between the first and the last arrival
    double whole_s;           // from the first write to the last arrival
  };
  Transfer transfer(std::size_t bytes) {
    const auto start = Clock::now();
    std::thread sender([&] {
      const std::vector<char> chunk(1 << 18);
      for (std::size_t sent = 0; sent < bytes;) {
        sent +=
            asio::write(near_, asio::buffer(chunk.data(), std::min(chunk.size(), bytes - sent)));
      }
    });
    std::vector<char> chunk(1 << 18);
    const std::size_t first_bytes = far_.read_some(asio::buffer(chunk));
    const auto first = Clock::now();
    std::size_t received = first_bytes;
    while (received < bytes) received += far_.read_some(asio::buffer(chunk));
    const auto last = Clock::now();
    sender.join();
    return {static_cast<double>(bytes - first_bytes) / seconds(last - first),
            seconds(last - start)};
  }

  // Ends the relay, after which its figures stand.
  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] {
      lateness_us_ = static_cast<double>(relay_->stats().at({"a", "b"}).lateness_p99.count());
      relay_->stop();
      work_.reset();
    });
    thread_.join();
  }
  double relay_cpu_s() const { return relay_cpu_s_; }
  double lateness_us() const { return lateness_us_; }

 private:
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  asio::io_context clients_;
  tcp::acceptor acceptor_;
  tcp::socket near_{clients_}, far_{clients_};
  std::unique_ptr<Relay> relay_;
  std::thread thread_;
  double relay_cpu_s_ = 0, lateness_us_ = 0;
};

LinkProfile profile_of(double mbit_s, double delay_ms) {
  LinkProfile profile;
  profile.rate_bytes_per_s = mbit_s * 1e6 / 8;
  profile.delay = std::chrono::microseconds(static_cast<long>(delay_ms * 1000));
  return profile;
}

void measure_rate(double mbit_s) {
  constexpr double kDelayMs = 35.5;
  Bench bench(profile_of(mbit_s, kDelayMs));
  const auto bytes = static_cast<std::size_t>(mbit_s * 1e6 / 8 * 3);
  const auto transfer = bench.transfer(bytes);
  bench.stop();
  const double measured = transfer.rate_bytes_per_s * 8 / 1e6;
  std::printf("%7.0f  %10.3f  %+8.3f %%  %12.0f  %12.1f  %12.2f\n", mbit_s, measured,
              (measured / mbit_s - 1) * 100, bench.lateness_us(),
              100 * bench.relay_cpu_s() / transfer.whole_s,
              bench.relay_cpu_s() / static_cast<double>(bytes) * 1e9);
}

void measure_sizes(double mbit_s) {
  constexpr double kDelayMs = 35.5;
  for (const std::size_t bytes : {1'000'000U, 4'000'000U, 16'000'000U}) {
    Bench bench(profile_of(mbit_s, kDelayMs));
    const double model_s = static_cast<double>(bytes) / (mbit_s * 1e6 / 8) + kDelayMs / 1000;
    const double measured_s = bench.transfer(bytes).whole_s;
    std::printf("%7.0f  %10zu  %10.2f  %10.2f  %+8.3f %%\n", mbit_s, bytes, model_s * 1000,
                measured_s * 1000, (measured_s / model_s - 1) * 100);
  }
}

void measure_round_trip(double mbit_s, double rtt_ms) {
  Bench bench(profile_of(mbit_s, rtt_ms / 2));
  std::vector<double> extra_us;
  const int pings = rtt_ms > 50 ? 30 : 300;
  const double wire_ms = 2 * 8 / (mbit_s * 1000);  // a byte each way
  for (int i = 0; i < pings; ++i)
    extra_us.push_back((bench.round_trip() * 1000 - rtt_ms - wire_ms) * 1000);
  std::sort(extra_us.begin(), extra_us.end());
  const auto at = [&](double fraction) {
    return extra_us[static_cast<std::size_t>(fraction * (pings - 1))];
  };
  std::printf("%7.0f  %10.1f  %10.0f  %10.0f  %10.0f\n", mbit_s, rtt_ms, at(0), at(0.5), at(0.99));
}

}  // namespace

int main() {
  std::printf("Rate, one connection, 3 s of data, 35.5 ms one-way\n");
  std::printf("  set Mbit/s    measured       error  late p99 us  relay core %%  CPU s per GB\n");
  for (const double mbit_s : {10.0, 100.0, 1000.0}) measure_rate(mbit_s);
  std::printf("\nWhole transfer, first write to last arrival, against bytes / rate + delay\n");
  std::printf(" Mbit/s       bytes    model ms  measured ms     error\n");
  measure_sizes(100);
  std::printf("\nRound trip of one byte, microseconds above the round trip set\n");
  std::printf(" Mbit/s      set ms         min         p50         p99\n");
  for (const double mbit_s : {10.0, 100.0, 1000.0}) {
    for (const double rtt_ms : {2.0, 71.0}) measure_round_trip(mbit_s, rtt_ms);
  }
}
