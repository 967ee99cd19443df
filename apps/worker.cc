// causeway worker: one rank of one region.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include <spdlog/spdlog.h>

#include "apps/commands.h"
#include "apps/run/config.h"
#include "apps/signals.h"
#include "intra/worker_loop.h"

namespace causeway::apps {
namespace {

struct WorkerFlags {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string region;
  std::optional<std::uint32_t> rank;
  std::filesystem::path directory;
  std::optional<std::size_t> synchronous_rank;
  std::size_t synchronous_world = 0;
  std::string generation;
};

// The rank as torchrun, Slurm and Open MPI tell it; 0 when nobody does.
std::uint32_t rank_from_environment() {
  for (const char* name : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}) {
    const char* text = std::getenv(name);
    if (!text || !*text) continue;
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    if (*end != '\0' || value > 0xFFFF) {
      throw run::ConfigError(std::string(name) + "=" + text + ": not a rank; give --rank");
    }
    return static_cast<std::uint32_t>(value);
  }
  return 0;
}

int run_worker(const WorkerFlags& flags) {
  const run::Config config = run::load_config(flags.config, flags.overrides);
  const auto directory = flags.directory.empty()
                             ? std::filesystem::path("runs") / config.name / flags.region
                             : flags.directory;
  const std::uint32_t rank = flags.rank ? *flags.rank : rank_from_environment();
  intra::WorkerOptions options = run::worker_options(config, flags.region, rank, directory);
  if (flags.synchronous_rank) {
    options.synchronous = {*flags.synchronous_rank, flags.synchronous_world, flags.generation};
  }
  watch_signals();
  const intra::WorkerResult result = intra::run_worker(options, stop_requested);
  spdlog::info("done: {} steps, {} tokens, validation loss {:.4f}, parameters {}", result.steps,
               result.tokens, result.val_loss, result.params_digest.substr(0, 12));
  return 0;
}

}  // namespace

void add_worker(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "Train as one rank of a region");
  command->add_option("CONFIG", flags->config, "The run's configuration file")->required();
  command->add_option("--set", flags->overrides, "Override a setting: section.key=value");
  command->add_option("--region", flags->region, "This region's name")->required();
  command->add_option(
      "--rank", flags->rank,
      "Rank within the region (default: RANK, SLURM_PROCID or OMPI_COMM_WORLD_RANK)");
  command->add_option(
      "--directory", flags->directory,
      "The region's directory, the same as its coordinator's (default: runs/NAME/REGION)");
  CLI::Option* rank =
      command->add_option("--synchronous-rank", flags->synchronous_rank,
                          "Fully synchronous baseline: rank among all regions' workers");
  command->add_option("--synchronous-world", flags->synchronous_world, "... of how many")
      ->needs(rank);
  command->add_option("--generation", flags->generation, "... under this group name")->needs(rank);
  command->callback([flags, &exit_code] { exit_code = run_worker(*flags); });
}

}  // namespace causeway::apps
