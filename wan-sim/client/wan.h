// A simulated WAN before real sockets, for tests: `causeway wan-sim` for as long as an object
// lives. Installed as <causeway/wan.h>; docs/wan-scenarios.md has the scenario file, and
// examples/wan-gtest/ a whole test with GoogleTest. It works with any other framework, too.
//
//   causeway::Wan wan("wan.toml", {{"us", "eu", "127.0.0.1:5432"}});
//   connect("127.0.0.1", wan.port("us", "eu"));               // instead of 5432
//   wan.change("eu", "us", {{"rate_mbit_s", 1}}, 10s);
//   wan.cut("eu", "us");
//   wan.heal("eu", "us");
//   EXPECT_GT(wan.link("eu", "us").bytes, 0);
//
// Each object is a relay of its own on free ports, so that tests may run side by side.
//
// One thread at a time. What the program says is wrong is thrown as a std::runtime_error: a
// scenario, a region, a command. A pair without a map is a std::out_of_range.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace causeway {

struct WanOptions {
  std::filesystem::path program = "causeway";  // looked up in PATH unless it has a slash
  std::filesystem::path record = {};           // gets what happens, if it is not empty
};

class Wan {
 public:
  using Seconds = std::chrono::duration<double>;

  // Where `to` listens as seen from `from`, as in --map: HOST:PORT, and if wanted behind it
  // ",listen=HOST:PORT" and ",udp". Otherwise the relay listens on a free port of 127.0.0.1.
  struct Map {
    std::string from, to, target;
  };
  struct Address {
    std::string host;
    std::uint16_t port = 0;
  };
  // What a link is now, one way, and what it has carried.
  struct Link {
    std::string from, to;
    double rate_mbit_s = 0, delay_ms = 0, loss = 0;
    bool black_hole = false;
    bool refused = false;  // new connections over it are
    std::uint64_t bytes = 0, connections = 0;
    std::uint64_t datagrams = 0, datagrams_lost = 0, datagrams_dropped = 0;
  };
  // Whether this machine has kept up so far. If it is not valid, a test saw the machine and not the
  // WAN.
  struct Verdict {
    bool valid = false;
    std::string text;
  };

  // `scenario`: a file, or, if it has several lines, the text of one. Returns when the relay
  // listens.
  Wan(const std::string& scenario, const std::vector<Map>& maps, const WanOptions& options = {});
  ~Wan();  // ends it, and with it all connections

  // What a program in `from` dials to reach `to`.
  Address address(const std::string& from, const std::string& to) const;
  std::uint16_t port(const std::string& from, const std::string& to) const;

  // Resets the connections between them and refuses new ones, until `heal` or for so long.
  void cut(const std::string& a, const std::string& b,
           std::optional<Seconds> length = std::nullopt);
  // Ends cuts and black holes, between two regions or everywhere.
  void heal(const std::string& a, const std::string& b);
  void heal();
  // Nothing enters the links between them for so long; connections stay open.
  void pause(const std::string& a, const std::string& b, Seconds length);
  // Settings of the links between them, by their keys in a scenario, for good or for so long.
  using Settings = std::map<std::string, double>;
  void change(const std::string& a, const std::string& b, const Settings& settings,
              std::optional<Seconds> length = std::nullopt);
  // Whatever an [[event]] can say, as its line.
  void command(const std::string& event);

  std::vector<Link> links() const;
  Link link(const std::string& from, const std::string& to) const;
  Verdict verdict() const;
  std::string url() const;  // a browser shows the links there

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway
