// A WAN in real time as whoever watches and steers it sees it, whichever engine runs it: the relay
// and the packet engine are such.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "wan-sim/base/verdict.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

struct DirectedStats {
  std::uint64_t bytes = 0;        // delivered
  std::uint64_t connections = 0;  // opened, over the relay's life
  std::uint64_t releases = 0;     // how many times bytes were released, on time or late
  // Inside the engine now: queued, under way, or waiting for a slow receiver.
  std::uint64_t buffered_bytes = 0;
  std::chrono::microseconds lateness_p99{0};  // how late the engine itself released bytes
  // What the link could have carried while senders had bytes waiting that the relay had not read.
  std::uint64_t missed_bytes = 0;
  // Of UDP in the relay, every packet in the packet engine. Delivered; lost by chance or by a
  // fault; dropped by a full queue; and what this machine had no room for. Flows: the relay's
  // sources, over its life.
  std::uint64_t datagrams = 0, datagrams_lost = 0, datagrams_dropped = 0, datagrams_missed = 0;
  std::uint64_t datagram_flows = 0;
};

// What a link is now, as the file and all that happened since left it.
struct LinkState {
  LinkProfile profile;
  bool black_hole = false;
  bool refused = false;  // new connections over it are
};

// Something that a recording keeps. Told on the engine's thread.
struct WanEvent {
  enum class Kind : std::uint8_t { opened, closed, refused, acted, commanded } kind;
  Time at{0};                // since the engine was made
  Pair link{};               // directed, as dialled
  std::uint64_t number = 0;  // of the connection on its link, from 1
  std::string text{};        // acted: the action; commanded: the command
};

// On the engine's thread.
class LiveWan {
 public:
  virtual ~LiveWan() = default;

  virtual Engine engine() const = 0;
  // One line as in [[event]]; what its for_s undoes is undone. Throws Errc::bad_scenario.
  virtual void command(const std::string& line) = 0;
  virtual std::map<Pair, DirectedStats> stats() const = 0;
  virtual std::map<Pair, LinkState> links() const = 0;
  virtual Verdict verdict() const = 0;
};

}  // namespace causeway::wan_sim
