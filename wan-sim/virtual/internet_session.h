// What is under way between two regions in virtual time. Internal to the virtual engine.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "wan-sim/virtual/internet.h"

namespace causeway::wan_sim {

// What goes over a control connection.
struct Internet::Control {
  std::uint64_t bytes = 0;  // that have not arrived
  std::string message{};
  // Instead of a message: to be sent back or, if `pass_to` is set, to be passed on to that region.
  std::optional<inter::BlobId> blob{};
  std::string pass_to{};
};

// One direction of a session.
struct Internet::Stream {
  std::string from, to;
  VirtualNetwork::FlowId control = 0, data = 0;
  std::deque<Control> messages{};
  struct Pushing {
    inter::BlobId id;
    std::uint64_t wire_bytes, blob_bytes;  // to come
  };
  std::optional<Pushing> pushing{};
};

struct Internet::Session {
  Stream there, back;
  Stream& from(const std::string& region) { return there.from == region ? there : back; }
};

}  // namespace causeway::wan_sim
