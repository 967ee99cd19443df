// How a region's process meets the others: its configuration, and what a command line changes of
// it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "inter/mesh/mesh.h"

namespace causeway::run {

struct LinkFlags {
  std::string region;                  // or the witness
  std::string listen;                  // HOST:PORT; empty: as configured
  std::filesystem::path certificates;  // empty: as configured
  std::vector<std::string> peers;      // "NAME=HOST:PORT", over what the file advertises
};

// Of all others, the witness too; no host: that one dials. Throws ConfigError.
std::map<std::string, inter::Endpoint> peer_addresses(const Config& config, const LinkFlags& flags);

// Without peers and greeting.
inter::MeshOptions mesh_options(const Config& config, const LinkFlags& flags);

}  // namespace causeway::run
