// A user-space TCP relay: a WAN between real sockets on one host, without privileges (performance.md 6.4 (a)).
//
// One listening port per directed pair (from, to): region `from` dials it and reaches region `to`. Bytes are never dropped or altered:
// a link's rate, delay and stalls shape when they arrive. Rate is shared by all connections of a directed link; delay
// is one-way; jitter never reorders a connection's bytes; a new connection pays one round trip before it is established.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/ip/tcp.hpp>

namespace causeway::wan_sim {

struct LinkProfile {
  double rate_bytes_per_s = 12.5e6;               // 100 Mbit/s
  std::chrono::microseconds delay{0};             // one-way
  std::chrono::microseconds jitter{0};            // standard deviation, added as |normal|
  double stalls_per_s = 0;                        // Poisson
  std::chrono::microseconds stall{0};             // length of one stall
  std::uint64_t queue_bytes = 1U << 20;           // beyond bandwidth x delay; then back-pressure
};

struct Scenario {
  std::string name;
  std::vector<std::string> regions;
  std::map<std::pair<std::string, std::string>, LinkProfile> links;  // directed: (from, to)
  std::uint64_t seed = 1;
};

// TOML; docs/wan-sim.md has the format. Throws std::system_error (Errc::bad_scenario): file, line, what is allowed.
Scenario load_scenario(const std::filesystem::path& file);

struct DirectedStats {
  std::uint64_t bytes = 0;        // delivered
  std::uint64_t connections = 0;  // opened, over the relay's life
  std::chrono::microseconds lateness_p99{0};  // how late the relay itself released segments
};

class Relay {
 public:
  using Upstream = std::function<std::optional<asio::ip::tcp::endpoint>()>;  // where `to` listens now, if it does

  Relay(asio::any_io_executor executor, Scenario scenario);
  ~Relay();

  // Opens the port on which `from` reaches `to`; connection attempts while `upstream` answers nothing are refused.
  asio::ip::tcp::endpoint open(const std::string& from, const std::string& to, Upstream upstream);

  // Faults. cut: existing connections of the pair (both directions) are reset and new ones refused until healed.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  // Nothing passes for `length` in either direction; connections stay open.
  void stall(const std::string& a, const std::string& b, std::chrono::microseconds length);

  std::map<std::pair<std::string, std::string>, DirectedStats> stats() const;
  void stop();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::wan_sim
