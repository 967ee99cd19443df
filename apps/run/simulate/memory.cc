#include "apps/run/simulate/memory.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "apps/run/simulate/region_processes.h"
#include "intra/step/memory_need.h"

namespace causeway::run {
namespace {

std::uint64_t worker_bytes(const Config& config, const RegionConfig& region, bool baseline) {
  if (!config.built_in_trainer()) return 0;
  intra::WorkerOptions options = worker_options(config, region.name, 0, ".");
  if (baseline) options.synchronous = {0, total_workers(config), ""};
  return intra::held_bytes(intra::memory_need(options));
}

std::uint64_t workers_bytes(const Config& config, bool baseline) {
  std::uint64_t bytes = 0;
  for (const RegionConfig& region : config.regions)
    bytes += region.workers * worker_bytes(config, region, baseline);
  return bytes;
}

std::string counted(std::uint64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::uint64_t simulation_bytes(const Config& config, bool baseline) {
  const std::uint64_t training =
      workers_bytes(config, false) + config.regions.size() * intra::kProgramBytes;
  return std::max(training, baseline ? workers_bytes(config, true) : 0);
}

void check_memory(const Config& config, bool baseline, const intra::HostMemory& host) {
  const std::uint64_t needed = simulation_bytes(config, baseline);
  if (host.total_bytes == 0 || needed <= host.available_bytes) return;
  const std::string place = host.limit.empty() ? "this host" : "the control group " + host.limit;
  throw ConfigError(
      "this run needs up to " + intra::in_mib(needed) + " of memory (" +
      counted(total_workers(config), "worker") + ", " +
      counted(config.regions.size(), "coordinator") + "), and " + place + " has " +
      intra::in_mib(host.available_bytes) + " free of " + intra::in_mib(host.total_bytes) +
      ": end what else needs memory here, take fewer regions or workers or a smaller model, or use "
      "a host with more");
}

}  // namespace causeway::run
