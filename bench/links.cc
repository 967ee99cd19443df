// Links between regions: what bench/links.py runs in the network namespaces of a WAN, and an
// all-gather over loopback beside raw OpenSSL. Prints one JSON object per transfer.
//
//   pki DIRECTORY                                     certificates for regions a, b, c, d
//   serve PKI SPOOL PORT CONGESTION                   region b, until killed
//   push PKI SPOOL HOST PORT BYTES TIMES IDLE_S CONNECTIONS CONGESTION   region a
//   tcp-serve PORT                                    the peer: one plain TCP socket
//   tcp-push HOST PORT BYTES TIMES IDLE_S CONGESTION
//   allgather DIRECTORY REGIONS BYTES TIMES           all on loopback, taking turns with TLS
//   without us
//
// A time is from the order to send until the receiver's message that it has, and has checked,
// everything; for plain TCP until its one-byte answer.
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/connect.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include "bench/tls_peers.h"
#include "inter/mesh/mesh.h"

namespace {

using asio::ip::tcp;
using bench::AsioTls;
using bench::Cost;
using bench::cpu_seconds;
using bench::OwnTls;
using bench::RawTls;
using Clock = std::chrono::steady_clock;
using causeway::inter::BlobId;
using causeway::inter::Mesh;
using causeway::inter::MeshOptions;
using causeway::inter::Spool;
using Path = std::filesystem::path;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// Never the same twice, so that nothing is already there.
std::vector<std::byte> fresh_bytes(std::size_t size) {
  static std::mt19937_64 random(std::random_device{}());
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = random();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, bytes.begin() + static_cast<long>(i));
  }
  return bytes;
}

class Region : public causeway::inter::MeshHandler {
 public:
  Region(asio::io_context& context, MeshOptions options, const Path& spool_directory)
      : spool(spool_directory, 64ULL << 30), mesh(context.get_executor(), options, spool, *this) {}

  std::string judge_greeting(const std::string&, const std::string&) override { return ""; }
  void on_refused_by(const std::string&, const causeway::inter::LinkError&) override {}
  void on_peer_up(const std::string&, const std::string&) override {}
  void on_peer_down(const std::string&, const std::string&) override {}
  void on_message(const std::string&, const std::string&) override { ++answers; }
  void on_blob(const std::string& from, const BlobId& id) override {
    mesh.send(from, "got it");
    arrived.push_back(id);
  }
  void forget_arrived() {
    for (const BlobId& id : std::exchange(arrived, {})) {
      spool.remove(id);
    }
  }

  Spool spool;
  Mesh mesh;
  int answers = 0;
  std::vector<BlobId> arrived;
};

MeshOptions options_of(const Path& pki, const std::string& self, std::uint16_t port,
                       const std::string& congestion) {
  MeshOptions options;
  options.self = self;
  options.bind = {"0.0.0.0", port};
  options.credentials = causeway::inter::credentials_in(pki, self);
  options.congestion_control = congestion;
  return options;
}

template <typename Done>
void run_until(asio::io_context& context, const Done& done) {
  while (!done()) {
    context.restart();
    context.run_one_for(std::chrono::seconds(1));
  }
}

void run_for(asio::io_context& context, double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    context.restart();
    context.run_for(std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()));
  }
}

int serve(const Path& pki, const Path& spool, std::uint16_t port, const std::string& congestion) {
  asio::io_context context;
  MeshOptions options = options_of(pki, "b", port, congestion);
  options.peers["a"] = {"127.0.0.1", 1};
  Region region(context, options, spool);
  region.mesh.start();
  for (;;) {
    context.run_one_for(std::chrono::seconds(1));
    context.poll();
    region.forget_arrived();
  }
}

int push(char** arguments) {
  asio::io_context context;
  MeshOptions options = options_of(arguments[0], "a", 0, arguments[8]);
  options.peers["b"] = {arguments[2], static_cast<std::uint16_t>(std::atoi(arguments[3]))};
  options.data_connections = static_cast<unsigned>(std::atoi(arguments[7]));
  Region region(context, options, arguments[1]);
  region.mesh.start();
  run_until(context, [&] { return region.mesh.is_up("b"); });
  const auto size = std::strtoull(arguments[4], nullptr, 10);
  for (int i = 0; i < std::atoi(arguments[5]); ++i) {
    const BlobId id = region.spool.put(fresh_bytes(size));
    run_for(context, std::atof(arguments[6]));
    const double cpu = cpu_seconds();
    const auto began = Clock::now();
    region.mesh.push_blob("b", id);
    run_until(context, [&] { return region.answers == i + 1; });
    const double seconds = seconds_since(began);
    const auto stats = region.mesh.stats().at("b");
    std::printf(
        "{\"seconds\": %.4f, \"sender_cpu_s\": %.4f, \"connections\": %zu, "
        "\"round_trip_ms\": %.1f, \"rate_mbit_s\": %.1f, \"loss\": %.5f}\n",
        seconds, cpu_seconds() - cpu, stats.data_connections,
        1e-3 * static_cast<double>(stats.round_trip.count()), 8e-6 * stats.rate_bytes_per_s,
        stats.loss);
    std::fflush(stdout);
    region.spool.remove(id);
  }
  return 0;
}

int tcp_serve(std::uint16_t port) {
  asio::io_context context;
  tcp::acceptor acceptor(context, {tcp::v4(), port});
  std::vector<char> buffer(256 << 10);
  for (;;) {
    tcp::socket socket = acceptor.accept();
    std::error_code error;
    for (std::uint64_t size = 0;;) {
      asio::read(socket, asio::buffer(&size, sizeof size), error);
      while (!error && size > 0) {
        size -= socket.read_some(asio::buffer(buffer, std::min<std::size_t>(size, buffer.size())),
                                 error);
      }
      if (error) {
        break;
      }
      asio::write(socket, asio::buffer(buffer, 1), error);
    }
  }
}

int tcp_push(char** arguments) {
  asio::io_context context;
  tcp::socket socket(context, tcp::v4());
  const std::string congestion = arguments[5];
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, congestion.c_str(),
               static_cast<socklen_t>(congestion.size()));
  socket.connect(
      {asio::ip::make_address(arguments[0]), static_cast<std::uint16_t>(std::atoi(arguments[1]))});
  const auto size = std::strtoull(arguments[2], nullptr, 10);
  const std::vector<char> bytes(size);
  for (int i = 0; i < std::atoi(arguments[3]); ++i) {
    asio::steady_timer idle(
        context, std::chrono::milliseconds(static_cast<int>(1000 * std::atof(arguments[4]))));
    idle.wait();
    const auto began = Clock::now();
    asio::write(socket, asio::buffer(&size, sizeof size));
    asio::write(socket, asio::buffer(bytes));
    char answer = 0;
    asio::read(socket, asio::buffer(&answer, 1));
    std::printf("{\"seconds\": %.4f}\n", seconds_since(began));
    std::fflush(stdout);
  }
  return 0;
}

// ---- All-gather over loopback ----

// Every region sends its bytes to every other one. A thread for each region.
class Meshes {
 public:
  Meshes(const Path& directory, int regions) {
    for (int i = regions - 1; i >= 0; --i) {
      const std::string self(1, static_cast<char>('a' + i));
      MeshOptions options = options_of(directory / "pki", self, 0, "auto");
      for (int other = 0; other < regions; ++other) {
        options.peers[std::string(1, static_cast<char>('a' + other))] = {
            "127.0.0.1", other > i ? ports_[other] : std::uint16_t{1}};
      }
      options.peers.erase(self);
      contexts_.push_back(std::make_unique<asio::io_context>(1));
      regions_.push_back(
          std::make_unique<Region>(*contexts_.back(), options, directory / ("spool-" + self)));
      regions_.back()->mesh.start();
      ports_[i] = regions_.back()->mesh.listening_port();
    }
  }

  Cost run(std::size_t size) {
    std::vector<BlobId> ids;
    for (const auto& region : regions_) {
      ids.push_back(region->spool.put(fresh_bytes(size)));
    }
    each([&](std::size_t i) { run_for(*contexts_[i], 0.5); });
    const double cpu = cpu_seconds(), hashing = hash_cpu();
    const auto began = Clock::now();
    std::atomic<std::size_t> finished = 0;
    double seconds = 0;
    each([&](std::size_t i) {
      Region& region = *regions_[i];
      const int wanted = region.answers + static_cast<int>(regions_.size()) - 1;
      for (const auto& [peer, stats] : region.mesh.stats()) {
        region.mesh.push_blob(peer, ids[i]);
      }
      run_until(*contexts_[i], [&] { return region.answers == wanted; });
      if (++finished == regions_.size()) {
        seconds = seconds_since(began);
      }
      while (finished < regions_.size()) {  // for the others' sake
        run_for(*contexts_[i], 0.002);
      }
    });
    const Cost cost{seconds, cpu_seconds() - cpu, hash_cpu() - hashing};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      regions_[i]->spool.remove(ids[i]);
      regions_[i]->forget_arrived();
    }
    return cost;
  }

 private:
  template <typename Action>
  void each(const Action& action) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      threads.emplace_back([&action, i] { action(i); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  double hash_cpu() const {
    double total = 0;
    for (const auto& region : regions_) {
      total += std::chrono::duration<double>(region->mesh.hashing().cpu_time).count();
    }
    return total;
  }

  std::map<int, std::uint16_t> ports_;
  std::vector<std::unique_ptr<asio::io_context>> contexts_;
  std::vector<std::unique_ptr<Region>> regions_;
};

void print(const char* who, const Cost& cost, double gigabytes) {
  std::printf("\"%s\": {\"s\": %.4f, \"cpu_s_per_gb\": %.3f}, ", who, cost.seconds,
              cost.cpu_s / gigabytes);
}

int allgather(const Path& directory, int regions, std::size_t size, int times) {
  const int links = regions * (regions - 1);
  Meshes ours(directory, regions);
  RawTls raw(directory / "pki", links);
  AsioTls asio(directory / "pki", links);
  OwnTls link(directory / "pki", links);
  const double gigabytes = 1e-9 * static_cast<double>(size) * links;
  for (int i = 0; i < times; ++i) {
    std::printf("{\"regions\": %d, ", regions);
    print("raw", raw.run(size), gigabytes);
    print("raw_files", raw.run_files(size, directory), gigabytes);
    print("asio", asio.run(size), gigabytes);
    print("ours_link", link.run(size), gigabytes);
    const Cost own = ours.run(size);
    print("ours", own, gigabytes);
    std::printf("\"hash_cpu_s_per_gb\": %.3f}\n", own.hash_cpu_s / gigabytes);
    std::fflush(stdout);
  }
  return 0;
}

int make_pki(const Path& directory) {
  causeway::inter::create_ca(directory, "bench");
  for (const char* region : {"a", "b", "c", "d"}) {
    causeway::inter::add_region(directory, region);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  spdlog::set_level(spdlog::level::err);  // warnings of the first dialling are no result
  const std::string mode = count > 1 ? arguments[1] : "";
  const auto port = [&](int i) { return static_cast<std::uint16_t>(std::atoi(arguments[i])); };
  if (mode == "pki" && count == 3) return make_pki(arguments[2]);
  if (mode == "serve" && count == 6) {
    return serve(arguments[2], arguments[3], port(4), arguments[5]);
  }
  if (mode == "push" && count == 11) return push(arguments + 2);
  if (mode == "tcp-serve" && count == 3) return tcp_serve(port(2));
  if (mode == "tcp-push" && count == 8) return tcp_push(arguments + 2);
  if (mode == "allgather" && count == 6) {
    return allgather(arguments[2], std::atoi(arguments[3]),
                     std::strtoull(arguments[4], nullptr, 10), std::atoi(arguments[5]));
  }
  std::fprintf(stderr, "see the top of bench/links.cc\n");
  return 2;
}
