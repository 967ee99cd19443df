// causeway coordinator: one region's links and its part in the agreement.
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/ip/address.hpp>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/config/link_flags.h"
#include "apps/run/config/prices.h"
#include "apps/run/config/spool_need.h"
#include "apps/run/config/suitable_outer.h"
#include "apps/run/doctor/doctor.h"
#include "apps/run/follow/weights_image.h"
#include "apps/run/follow/weights_patch.h"
#include "apps/run/region/choose_start.h"
#include "apps/run/region/own_process.h"
#include "apps/run/region/region_files.h"
#include "apps/run/region/run_directory.h"
#include "apps/run/region/shard_tools.h"
#include "apps/run/region/start_needs.h"
#include "apps/run/report/run_report.h"
#include "apps/run/verify/named_snapshot.h"
#include "apps/run/watch/begin_log.h"
#include "apps/run/watch/checkpoint_hook.h"
#include "apps/run/watch/coordinator_process.h"
#include "diloco/coordinator/coordinator.h"
#include "diloco/files/file_io.h"
#include "intra/outer/state_file.h"
#include "intra/worker/worker_result.h"

namespace causeway::apps {
namespace {

struct CoordinatorFlags : run::LinkFlags {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path directory;
  std::string worker_listen;
  std::string metrics;  // HOST:PORT; empty: none are served
  std::uint32_t start_wait_s = run::kStartWait.count();
  bool found = false;
  bool join = false;
  bool automatic = false;
  std::filesystem::path fork, fork_certificates;
};

// "0.0.0.0" is every address of the host that listens there, and none to whoever dials it.
void check_dialable(const std::string& region, const inter::Endpoint& endpoint) {
  std::error_code is_name;
  const auto address = asio::ip::make_address(endpoint.host, is_name);
  if (is_name || !address.is_unspecified()) return;
  throw run::ConfigError("region " + region + " would be announced at " +
                         inter::to_string(endpoint) +
                         ", which no other region can dial: set its advertise to an address of "
                         "that host as others see it; listen may stay as it is");
}

std::vector<diloco::Member> members(const run::Config& config, const CoordinatorFlags& flags) {
  const auto peers = run::peer_addresses(config, flags);
  std::vector<diloco::Member> members;
  const auto add = [&](const std::string& name, const inter::Endpoint& advertise, bool witness) {
    const auto peer = peers.find(name);
    const inter::Endpoint& endpoint = peer == peers.end() ? advertise : peer->second;
    check_dialable(name, endpoint);
    members.push_back({.region = name,
                       .address = endpoint.host.empty() ? "" : inter::to_string(endpoint),
                       .witness = witness});
  };
  for (const run::RegionConfig& region : config.regions) add(region.name, region.advertise, false);
  if (!config.witness.name.empty()) add(config.witness.name, config.witness.advertise, true);
  return members;
}

std::filesystem::path certificates_of(const run::Config& config, const CoordinatorFlags& flags) {
  return flags.certificates.empty() ? config.certificates : flags.certificates;
}

diloco::Fork fork_of(const run::Config& config, const CoordinatorFlags& flags) {
  const std::filesystem::path region = run::region_with_newest_snapshot(flags.fork);
  run::NamedSnapshot named = run::read_named_snapshot(
      region,
      run::certificates_for(region, flags.fork_certificates, certificates_of(config, flags)));
  return {
      .origin = {.run_id = named.ledger.run_id,
                 .version = named.snapshot.version,
                 .state = named.snapshot.state,
                 .blob = named.snapshot.blob},
      .snapshot = named.file,
      .content = std::make_shared<std::optional<diloco::MappedBytes>>(std::move(named.content))};
}

bool has_result(const std::filesystem::path& directory, const std::string& run_id,
                diloco::Round version) {
  try {
    const auto result = intra::read_result(directory);
    return result && result->is_of(run_id) && result->progress.round() >= version;
  } catch (const std::system_error&) {  // it is looked at again
    return false;
  }
}

diloco::CoordinatorOptions coordinator_options(const run::Config& config,
                                               const CoordinatorFlags& flags) {
  diloco::CoordinatorOptions options;
  options.region = flags.region;
  options.members = members(config, flags);
  options.founder = config.sync.founder;
  options.mesh = run::mesh_options(config, flags);
  if (flags.region != config.witness.name) {
    const run::RegionConfig& region = run::region_in(config, flags.region);
    options.workers = region.workers;
    options.rank_wait = config.train.rank_wait;
    options.region_config = run::region_settings(config, flags.region);
  }
  options.start = flags.found           ? diloco::Start::found
                  : flags.join          ? diloco::Start::join
                  : !flags.fork.empty() ? diloco::Start::fork
                                        : diloco::Start::resume;
  options.protocol = run::protocol_options(config, flags.region);
  options.shared_config = run::shared_settings(config);
  options.egress_prices = run::prices_of(config).from(flags.region);
  if (config.keeps_all) options.kept_config = run::to_toml(config);
  options.follower_bytes_per_s = run::follower_bytes_per_s(config);
  options.follower_weights = {run::write_weights_image, run::write_weights_patch};
  options.wrong_snapshot = intra::wrong_snapshot;
  options.model_objection = [config](const diloco::NamedTensors& tensors,
                                     std::uint32_t save_rounds) {
    return run::spool_problem_of_program(config, tensors, save_rounds);
  };
  options.shards = run::shard_tools();
  options.directory = run::region_path(config, flags.region, flags.directory);
  options.has_result = [directory = options.directory](const std::string& run_id,
                                                       diloco::Round version) {
    return has_result(directory, run_id, version);
  };
  if (!flags.worker_listen.empty())
    options.worker_listen = inter::parse_endpoint(flags.worker_listen);
  return options;
}

run::StartNeeds start_needs(const diloco::CoordinatorOptions& options, const std::string& metrics) {
  run::StartNeeds needs{.who = options.region,
                        .directory = options.directory,
                        .credentials = options.mesh.credentials,
                        .listens = {},
                        .listens_for =
                            "other regions (listen, --listen), workers "
                            "(--worker-listen) or metrics (--metrics)",
                        .lock = options.directory / "ledger" / "lock",
                        .lock_is_held = "another coordinator uses " + options.directory.string() +
                                        ": stop it, or give this one a directory of its own"};
  if (!options.mesh.dial_only) needs.listens.push_back(options.mesh.bind);
  if (options.worker_listen) needs.listens.push_back(*options.worker_listen);
  if (!metrics.empty()) needs.listens.push_back(inter::parse_endpoint(metrics));
  return needs;
}

run::CheckpointHookOptions hook_options(const run::Config& config, const CoordinatorFlags& flags,
                                        const std::filesystem::path& directory) {
  const auto absolute = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path).string();
  };
  return {.command = config.checkpoint_after,
          .region = flags.region,
          .directory = directory,
          .environment = {{"CAUSEWAY_REGION", flags.region},
                          {"CAUSEWAY_DIRECTORY", absolute(directory)},
                          {"CAUSEWAY_CONFIG", absolute(flags.config)},
                          {"CAUSEWAY_CERTIFICATES", absolute(certificates_of(config, flags))}}};
}

// What this region alone knows of the run; `causeway report` puts several regions together.
void write_report(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / "status.json")) return;  // it was refused at its start
  try {
    const std::vector<run::RegionHistory> histories{run::read_region_history(directory)};
    if (!histories.front().rounds.empty())
      run::write_text_file(directory / "report.html", run::run_report(histories));
  } catch (const std::exception& error) {
    spdlog::warn("report.html was not written: {}", error.what());
  }
}

// Found out before the region takes part; throws what keeps it from that.
diloco::CoordinatorOptions options_at_start(const run::Config& config,
                                            const CoordinatorFlags& flags) {
  using diloco::Start;
  diloco::CoordinatorOptions options = coordinator_options(config, flags);
  if (run::is_followers(options.directory))
    throw run::ConfigError(options.directory.string() + " is what `causeway follow` keeps: give " +
                           flags.region +
                           " its own with --directory. If no follower uses it, remove it");
  run::wait_for(start_needs(options, flags.metrics), std::chrono::seconds(flags.start_wait_s));
  if (flags.automatic) {
    options.start = run::choose_start(config, flags.region, options.directory,
                                      run::peer_addresses(config, flags), options.mesh.credentials);
  }
  if (options.start == Start::fork) options.fork = fork_of(config, flags);
  const bool begins = options.start == Start::found || options.start == Start::join;
  if (config.requires_doctor && flags.region != config.witness.name && begins)
    run::require_doctor(config, flags.region, options.directory);
  return options;
}

int run_coordinator(const CoordinatorFlags& flags) {
  run::raise_open_files_limit();
  run::outlive_readers();
  const run::Config config = run::load_config(flags.config, flags.overrides);
  if (const std::string concern = run::outer_concern(config); !concern.empty())
    spdlog::warn("{}", concern);
  diloco::CoordinatorOptions options = options_at_start(config, flags);
  const std::filesystem::path directory = options.directory;
  diloco::create_private_directories(directory);
  run::log_to_file(directory / "coordinator.log");
  run::CoordinatorProcess process(config, flags.metrics, hook_options(config, flags, directory),
                                  std::move(options));
  process.run();
  if (flags.region != config.witness.name) write_report(directory);
  const diloco::RunOutcome& outcome = process.outcome();
  if (outcome.exit_code == 0) {
    spdlog::info("{}: {}", flags.region, outcome.message);
  } else {
    spdlog::error("{}: {}", flags.region, outcome.message);
  }
  return outcome.exit_code;
}

void add_flags(CLI::App* command, const std::shared_ptr<CoordinatorFlags>& flags) {
  command->add_option("CONFIG", flags->config, "The run's configuration file")->required();
  add_set_option(*command, flags->overrides);
  command->add_option("--directory", flags->directory,
                      "Where this region keeps its state (default: runs/NAME/REGION)");
  command->add_option("--certificates", flags->certificates,
                      "Directory made by `causeway certs` (default: certificates.directory)");
  command->add_option("--listen", flags->listen, "HOST:PORT to bind instead of the configured one");
  command->add_option("--worker-listen", flags->worker_listen,
                      "HOST:PORT where workers of this region on other hosts attach, over TLS");
  command->add_option(
      "--metrics", flags->metrics,
      "HOST:PORT to serve /metrics (for Prometheus), /healthz and /readyz at, without a password");
  add_start_wait(*command, flags->start_wait_s,
                 "a free port, an address, a name server, certificates or a disk");
  add_repeated(*command, "--peer", flags->peers,
               "NAME=HOST:PORT to dial instead of the advertised one");
}

}  // namespace

void add_coordinator(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CoordinatorFlags>();
  CLI::App* command = app.add_subcommand("coordinator", "Run one region's coordinator");
  add_flags(command, flags);
  command->add_option("--region", flags->region, "This region's name")->required();
  CLI::Option* found =
      command->add_flag("--found", flags->found, "Found a new run (one region, once)");
  CLI::Option* join =
      command->add_flag("--join", flags->join, "Join a run; this region has no state of it yet")
          ->excludes(found);
  CLI::Option* automatic =
      command
          ->add_flag("--auto", flags->automatic,
                     "Resume, join or found, whichever fits: for a launcher that starts the same "
                     "command again and again")
          ->excludes(found)
          ->excludes(join);
  CLI::Option* fork =
      command
          ->add_option("--fork", flags->fork,
                       "Found a new run that begins with the newest snapshot of another run. RUN "
                       "is the directory of that run, or of one of its regions")
          ->type_name("RUN")
          ->excludes(found)
          ->excludes(join)
          ->excludes(automatic);
  command
      ->add_option("--fork-certificates", flags->fork_certificates,
                   "Directory of the other run's certificates, which check its ledger (default: "
                   "certificates/ in its directory, otherwise this run's)")
      ->needs(fork);
  command->callback([flags, &exit_code] { exit_code = run_coordinator(*flags); });
}

// A vote for runs whose regions alone make no majority when one is lost: no worker, no payloads.
void add_witness(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CoordinatorFlags>();
  CLI::App* command =
      app.add_subcommand("witness", "Vote in a run without training, for runs of two regions");
  add_flags(command, flags);
  command->callback([flags, &exit_code] {
    const run::Config config = run::load_config(flags->config, flags->overrides);
    flags->region = config.witness.name;
    if (flags->region.empty()) {
      throw run::ConfigError(
          flags->config.string() +
          ": witness.name is not set; set witness.name, witness.listen and witness.advertise");
    }
    flags->join = !std::filesystem::exists(
        run::region_path(config, flags->region, flags->directory) / "ledger" / "run");
    exit_code = run_coordinator(*flags);
  });
}

}  // namespace causeway::apps
