#include "apps/run/config/link_flags.h"

#include <spdlog/spdlog.h>

#include <cstddef>

namespace causeway::run {

std::map<std::string, inter::Endpoint> peer_addresses(const Config& config,
                                                      const LinkFlags& flags) {
  std::map<std::string, inter::Endpoint> peers;
  for (const RegionConfig& region : config.regions) {
    if (region.name != flags.region) peers[region.name] = region.advertise;
  }
  const WitnessConfig& witness = config.witness;
  if (!witness.name.empty() && witness.name != flags.region)
    peers[witness.name] = witness.advertise;
  for (const std::string& text : flags.peers) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || !peers.contains(name)) {
      throw ConfigError("--peer " + text +
                        ": must be NAME=HOST:PORT, where NAME is another region of the file");
    }
    peers[name] = inter::parse_endpoint(text.substr(equals + 1));
  }
  return peers;
}

inter::MeshOptions mesh_options(const Config& config, const LinkFlags& flags) {
  inter::MeshOptions options;
  options.self = flags.region;
  inter::Endpoint advertise = config.witness.advertise;
  options.bind = config.witness.listen;
  if (flags.region != config.witness.name) {
    const RegionConfig& region = region_in(config, flags.region);
    options.bind = region.listen;
    advertise = region.advertise;
  }
  if (!flags.listen.empty())
    options.bind = inter::parse_endpoint(flags.listen);
  else if (options.bind.port == 0 && advertise.port != 0)
    spdlog::warn(
        "{}: the others dial {} (advertise), where nobody will answer: without `listen`, or "
        "--listen, it takes any free port of {}. Set `listen`, as in \"0.0.0.0:{}\"",
        flags.region, inter::to_string(advertise), options.bind.host, advertise.port);
  options.dial_only = advertise.host.empty() && flags.listen.empty();
  options.credentials = inter::credentials_in(
      flags.certificates.empty() ? config.certificates : flags.certificates, flags.region);
  options.seed = config.train.seed;
  options.data_connections = config.links.connections;
  options.congestion_control = config.links.congestion_control;
  options.topology = config.links.topology;
  return options;
}

}  // namespace causeway::run
