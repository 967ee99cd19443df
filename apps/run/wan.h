// How the coordinators of a simulation reach each other on this host.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inter/mesh.h"

namespace causeway::run {

class Wan {
 public:
  virtual ~Wan() = default;
  // Where a region's coordinator binds.
  virtual inter::Endpoint listen(const std::string& region) const = 0;
  // What `from` dials to reach `to`.
  virtual inter::Endpoint address(const std::string& from, const std::string& to) const = 0;
  // How late the slowest link released its bytes (99th percentile); nothing if nothing is delayed.
  // Ends the WAN.
  virtual std::optional<double> stop_and_report_lateness_ms() = 0;
};

// Through a relay that shapes every link as the scenario says, on a thread of its own, so that
// nothing this process does delays a byte. A coordinator binds any free port; `port_of` (called on
// that thread) says which, once it is known. Throws ConfigError if the scenario lacks a region.
std::unique_ptr<Wan> make_relay_wan(
    const std::filesystem::path& scenario, const std::vector<std::string>& regions,
    std::function<std::optional<std::uint16_t>(const std::string&)> port_of);

// Straight over loopback. Ports are found free and given back before the coordinators bind them;
// another program may take one in between, and its coordinator then says that it cannot bind and is
// started again.
std::unique_ptr<Wan> make_direct_wan(const std::vector<std::string>& regions);

}  // namespace causeway::run
