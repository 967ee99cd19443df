// How the coordinators of a simulation reach each other on this host.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inter/mesh/mesh.h"
#include "wan-sim/base/verdict.h"

namespace causeway::wan_sim {
struct ProcessAction;
}

namespace causeway::run {

enum class WanEngine { relay, packet, none };

class Wan {
 public:
  virtual ~Wan() = default;
  // Where a region's coordinator binds.
  virtual inter::Endpoint listen(const std::string& region) const = 0;
  // What `from` dials to reach `to`.
  virtual inter::Endpoint address(const std::string& from, const std::string& to) const = 0;
  // Where a region's processes run, as ProcessOptions has it.
  virtual int network_namespace(const std::string& region) const = 0;
  // Ends the WAN and says whether it kept up; nothing if nothing is delayed.
  virtual std::optional<wan_sim::Verdict> stop_and_judge() = 0;
};

// Told of what a scenario does to processes, on the WAN's thread.
using OnProcess = std::function<void(const wan_sim::ProcessAction&)>;

// Through a relay that shapes every link as the scenario says, on a thread of its own, so that
// nothing this process does delays a byte. A coordinator binds any free port; `port_of` (called on
// that thread) says which, once it is known. Throws ConfigError if the scenario lacks a region. The
// timeline begins now.
std::unique_ptr<Wan> make_relay_wan(
    const std::filesystem::path& scenario, const std::vector<std::string>& regions,
    std::function<std::optional<std::uint16_t>(const std::string&)> port_of, OnProcess on_process);

// Every region in a network namespace of its own, joined by the packet engine: real kernel TCP over
// an emulated wire, on a thread of its own. Throws ConfigError saying what is missing here and how
// to get it. To be called before this process has another thread.
std::unique_ptr<Wan> make_packet_wan(const std::filesystem::path& scenario,
                                     const std::vector<std::string>& regions, OnProcess on_process);

// Straight over loopback. Ports are found free and given back before the coordinators bind them;
// another program may take one in between, and its coordinator then says that it cannot bind and is
// started again.
std::unique_ptr<Wan> make_direct_wan(const std::vector<std::string>& regions);

}  // namespace causeway::run
