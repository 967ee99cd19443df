// causeway worker: one rank of one region.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/region/launched_rank.h"
#include "apps/run/region/own_process.h"
#include "apps/run/region/run_directory.h"
#include "apps/run/region/start_needs.h"
#include "apps/run/region/worker_placement.h"
#include "apps/run/watch/begin_log.h"
#include "diloco/files/file_io.h"
#include "intra/base/usable_cores.h"
#include "intra/collective/collective.h"
#include "intra/cuda/jobs/backend.h"
#include "intra/worker/rank_claim.h"
#include "intra/worker/run_worker.h"

namespace causeway::apps {
namespace {

struct WorkerFlags {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::string region;
  std::optional<std::uint32_t> rank;
  std::string launcher;
  std::filesystem::path directory;
  std::string coordinator;
  std::filesystem::path certificates;
  std::optional<std::size_t> synchronous_rank;
  std::size_t synchronous_world = 0;
  std::string generation;
  std::uint32_t start_wait_s = run::kStartWait.count();
};

std::optional<std::string> variable(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

// As the flags say, else as who started it says; the first where nobody does.
run::LaunchedRank place(const WorkerFlags& flags, const run::Config& config) {
  const std::uint32_t workers = run::region_in(config, flags.region).workers;
  run::LaunchedRank launched;
  if (flags.rank) {
    launched = {.rank = *flags.rank, .local_rank = *flags.rank};
  } else {
    launched = run::launched_rank(variable, flags.launcher, workers).value_or(launched);
  }
  // With a coordinator on another host the ranks meet on the network that leads there, or to
  // MASTER_ADDR.
  if (launched.meeting_host.empty() && !flags.coordinator.empty())
    launched.meeting_host =
        variable("MASTER_ADDR").value_or(inter::parse_endpoint(flags.coordinator).host);
  if (launched.local_world == 0 && launched.meeting_host.empty()) launched.local_world = workers;
  return launched;
}

void choose_cores(const run::Config& config, const std::string& region,
                  const run::LaunchedRank& launched) {
  run::WorkerSeat seat{.local_rank = launched.local_rank, .local_world = launched.local_world};
  if (run::region_in(config, region).device == intra::Device::cuda)
    seat.gpu = intra::cuda::pci_address(launched.local_rank);
  if (!launched.meeting_host.empty())
    seat.network = intra::interface_towards(launched.meeting_host);
  const run::WorkerPlacement placement =
      run::place_worker("/sys", run::allowed_cores(), seat, config.binds_to_numa);
  if (!placement.cores.empty()) run::run_on(placement.cores);
  const intra::UsableCores usable = intra::usable_cores();
  const std::string quota = usable.quota == 0 ? ""
                                              : fmt::format("; the quota of {} is {:.3g} cores",
                                                            usable.limit, usable.quota);
  spdlog::info("rank {}: {}{}", launched.rank, placement.text, quota);
}

std::filesystem::path lock_of(const std::filesystem::path& directory, std::uint32_t rank) {
  return directory / fmt::format("worker-{}.lock", rank);
}

run::StartNeeds start_needs(const WorkerFlags& flags, const intra::WorkerOptions& options,
                            const run::LaunchedRank& launched) {
  run::StartNeeds needs{.who = fmt::format("rank {}", options.rank),
                        .directory = options.directory,
                        .credentials = {},
                        .listens = {},
                        .meets_at = launched.meeting_host,
                        .lock = lock_of(options.directory, options.rank),
                        .lock_is_held = intra::rank_is_taken(options.directory)};
  if (!options.coordinator.empty())
    needs.credentials = inter::credentials_in(options.certificates, flags.region);
  return needs;
}

diloco::Descriptor claim(const std::filesystem::path& directory, std::uint32_t rank) {
  diloco::create_private_directories(directory);
  const std::filesystem::path file = lock_of(directory, rank);
  auto lock = diloco::lock_file(file);
  if (lock) return std::move(*lock);
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                          fmt::format("--rank {}: {}{}", rank, intra::rank_is_taken(directory),
                                      diloco::lock_holder(file)));
}

int run_worker(const WorkerFlags& flags) {
  run::raise_open_files_limit();
  run::outlive_readers();
  const run::Config config =
      run::load_config(flags.config, flags.overrides, run::Trainer::built_in);
  const auto directory = run::region_path(config, flags.region, flags.directory);
  const run::LaunchedRank launched = place(flags, config);
  intra::WorkerOptions options =
      run::worker_options(config, flags.region, launched.rank, directory);
  options.coordinator = flags.coordinator;
  options.certificates = flags.certificates.empty() ? config.certificates : flags.certificates;
  run::wait_for(start_needs(flags, options, launched), std::chrono::seconds(flags.start_wait_s));
  const diloco::Descriptor claimed = claim(directory, launched.rank);
  run::log_to_file(directory / fmt::format("worker-{}.log", launched.rank));
  choose_cores(config, flags.region, launched);
  options.local_rank = launched.local_rank;
  options.meeting_host = launched.meeting_host;
  if (flags.synchronous_rank) {
    if (*flags.synchronous_rank >= flags.synchronous_world)
      throw run::ConfigError("--synchronous-rank " + std::to_string(*flags.synchronous_rank) +
                             ": must be below --synchronous-world");
    options.synchronous = {*flags.synchronous_rank, flags.synchronous_world, flags.generation};
  }
  run::watch_stop_signals();
  if (launched.is_launchers_child) run::stop_with_parent();
  options.data.interrupted = run::stop_requested;
  const intra::WorkerResult result = intra::run_worker(options, run::stop_requested);
  spdlog::info("done: took {} steps, {} tokens, validation loss {:.4f}, parameters {}",
               run::format_steps(result.progress.step(), result.run_steps, " of "),
               result.progress.tokens(), result.progress.val_loss(),
               result.params_digest.substr(0, 12));
  return 0;
}

}  // namespace

void add_worker(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "Train as one rank of a region");
  command->add_option("CONFIG", flags->config, "The run's configuration file")->required();
  add_set_option(*command, flags->overrides);
  command->add_option("--region", flags->region, "This region's name")->required();
  command->add_option(
      "--rank", flags->rank,
      "Rank within the region (default: what torchrun, Slurm or Open MPI sets, otherwise 0)");
  command->add_option("--launcher", flags->launcher,
                      "Launcher whose environment variables count, if several launchers set "
                      "theirs: torchrun, slurm, openmpi or none");
  command->add_option(
      "--directory", flags->directory,
      "The region's directory, the same as its coordinator's (default: runs/NAME/REGION)");
  command->add_option("--coordinator", flags->coordinator,
                      "HOST:PORT of the region's coordinator on another host (--worker-listen "
                      "there); the directory must be shared");
  command->add_option(
      "--certificates", flags->certificates,
      "With --coordinator: directory of certificates (default: certificates.directory)");
  add_start_wait(*command, flags->start_wait_s,
                 "a free port, an address, a name server, certificates or a disk");
  CLI::Option* rank =
      command
          ->add_option("--synchronous-rank", flags->synchronous_rank,
                       "Fully synchronous baseline: rank among all regions' workers")
          ->check(number_from(0, kCountMax));
  command
      ->add_option("--synchronous-world", flags->synchronous_world,
                   "With --synchronous-rank: number of workers in all regions")
      ->check(number_from(1, kCountMax))
      ->needs(rank);
  command
      ->add_option("--generation", flags->generation,
                   "With --synchronous-rank: name of their group")
      ->needs(rank);
  command->callback([flags, &exit_code] { exit_code = run_worker(*flags); });
}

}  // namespace causeway::apps
