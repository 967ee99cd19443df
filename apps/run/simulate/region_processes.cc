#include "apps/run/simulate/region_processes.h"
#include "diloco/files/file_io.h"

#include <algorithm>

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

// Workers share the cores. OpenMP threads that spin while they wait would take them from each
// other.
std::map<std::string, std::string> worker_environment(const Launch& launch) {
  const unsigned threads = std::max(1U, launch.cores / total_workers(launch.config));
  return {{"OMP_NUM_THREADS", std::to_string(threads)}, {"OMP_WAIT_POLICY", "passive"}};
}

// How a coordinator takes part. Its ledger knows the run's id once it has founded or joined it, and
// from then on it resumes.
std::vector<std::string> start_flag(const Launch& launch, const std::string& region) {
  if (fs::exists(launch.directory.region(region) / "ledger" / "run")) return {};
  return {region == launch.config.sync.founder ? "--found" : "--join"};
}

ProcessOptions coordinator_command(const Launch& launch, const Wan& wan,
                                   const std::string& region) {
  const fs::path directory = launch.directory.region(region);
  fs::remove(directory /
             "listening_port");  // of an earlier coordinator; another program may have the port now
  ProcessOptions options;
  options.arguments = {launch.program.string(),
                       "coordinator",
                       launch.directory.config_file().string(),
                       "--region",
                       region,
                       "--directory",
                       directory.string(),
                       "--certificates",
                       launch.directory.certificates().string(),
                       "--listen",
                       inter::to_string(wan.listen(region))};
  for (const RegionConfig& other : launch.config.regions) {
    if (other.name == region) continue;
    options.arguments.insert(
        options.arguments.end(),
        {"--peer", other.name + "=" + inter::to_string(wan.address(region, other.name))});
  }
  for (std::string& flag : start_flag(launch, region)) options.arguments.push_back(std::move(flag));
  options.log = directory / "coordinator.log";
  options.network_namespace = wan.network_namespace(region);
  return options;
}

ProcessOptions worker_command(const Launch& launch, const std::string& region, std::uint32_t rank,
                              const fs::path& directory) {
  ProcessOptions options;
  options.arguments = {launch.program.string(),
                       "worker",
                       launch.directory.config_file().string(),
                       "--region",
                       region,
                       "--rank",
                       std::to_string(rank),
                       "--directory",
                       directory.string()};
  options.environment = worker_environment(launch);
  options.log = directory / ("worker-" + std::to_string(rank) + ".log");
  return options;
}

Supervised supervised(std::string label, std::function<ProcessOptions()> command,
                      std::function<std::uint64_t()> progress) {
  return {std::move(label), std::move(command), std::move(progress)};
}

}  // namespace

std::uint32_t total_workers(const Config& config) {
  std::uint32_t total = 0;
  for (const RegionConfig& region : config.regions) total += region.workers;
  return total;
}

std::vector<Supervised> training_processes(const Launch& launch, const Wan& wan,
                                           const Monitor& monitor) {
  std::vector<Supervised> processes;
  for (const RegionConfig& region : launch.config.regions) {
    const std::string name = region.name;
    const auto progress = [&monitor, name] { return monitor.version(name); };
    processes.push_back(supervised(
        name + " coordinator",
        [&launch, &wan, name] { return coordinator_command(launch, wan, name); }, progress));
    for (std::uint32_t rank = 0; rank < region.workers; ++rank) {
      processes.push_back(supervised(
          name + " worker " + std::to_string(rank),
          [&launch, &wan, name, rank] {
            ProcessOptions options =
                worker_command(launch, name, rank, launch.directory.region(name));
            options.network_namespace = wan.network_namespace(name);
            return options;
          },
          progress));
    }
  }
  return processes;
}

std::vector<Supervised> baseline_processes(const Launch& launch, const std::string& generation) {
  const std::uint32_t world = total_workers(launch.config);
  std::uint32_t next = 0;
  std::vector<Supervised> processes;
  for (const RegionConfig& region : launch.config.regions) {
    const fs::path directory = launch.directory.baseline(region.name);
    diloco::create_private_directories(directory);
    for (std::uint32_t rank = 0; rank < region.workers; ++rank, ++next) {
      ProcessOptions options = worker_command(launch, region.name, rank, directory);
      options.arguments.insert(options.arguments.end(),
                               {"--synchronous-rank", std::to_string(next), "--synchronous-world",
                                std::to_string(world), "--generation", generation});
      processes.push_back(supervised(
          "baseline " + region.name + " worker " + std::to_string(rank),
          [options] { return options; }, [] { return std::uint64_t{0}; }));
    }
  }
  return processes;
}

}  // namespace causeway::run
