// causeway follow: the newest weights of a run that trains, exact, for whoever only reads them.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include "apps/commands.h"
#include "apps/run/config/config.h"
#include "apps/run/config/link_flags.h"
#include "apps/run/follow/follow_pages.h"
#include "apps/run/follow/follower.h"
#include "apps/run/watch/checkpoint_hook.h"
#include "apps/run/watch/metrics_server.h"
#include "apps/set_option.h"
#include "diloco/files/file_io.h"

namespace causeway::apps {
namespace {

struct FollowFlags {
  std::filesystem::path config, directory, certificates;
  std::vector<std::string> overrides, peers;
  std::string name, region, dtype = "bfloat16", after, http;
  std::uint64_t every = 1, keep = 2, signatures = 0;
};

void put_first(std::vector<run::FollowedRegions::Address>& addresses, const std::string& region) {
  const auto found = std::ranges::find(addresses, region, &run::FollowedRegions::Address::region);
  if (found == addresses.end())
    throw run::ConfigError("--region " + region + ": no region of that name");
  std::rotate(addresses.begin(), found, found + 1);
}

run::FollowOptions follow_options(const run::Config& config, const FollowFlags& flags) {
  run::FollowOptions options;
  options.directory = flags.directory;
  options.self = flags.name + ".follower";
  options.credentials = inter::credentials_in(
      flags.certificates.empty() ? config.certificates : flags.certificates, flags.name);
  run::LinkFlags links;
  links.region = options.self;
  links.peers = flags.peers;
  const auto endpoints = run::peer_addresses(config, links);
  options.trusted = run::names_of(config);
  if (!config.witness.name.empty()) options.trusted.push_back(config.witness.name);
  for (const std::string& region : options.trusted)
    options.addresses.push_back({region, endpoints.at(region)});
  if (!flags.region.empty()) put_first(options.addresses, flags.region);
  options.signatures = flags.signatures > 0 ? flags.signatures : options.trusted.size() / 2 + 1;
  if (options.signatures > options.trusted.size())
    throw run::ConfigError("--signatures " + std::to_string(flags.signatures) + ": the run has " +
                           std::to_string(options.trusted.size()) + " regions");
  options.every = flags.every;
  options.kept = flags.keep;
  options.stored = flags.dtype == "float32" ? intra::StoredAs::fp32 : intra::StoredAs::bf16;
  return options;
}

run::CheckpointHookOptions hook_options(const FollowFlags& flags, const run::FollowReport& report) {
  return {.command = flags.after,
          .region = flags.name,
          .key = "--after",
          .file = "after",
          .newest = [&report]() -> std::optional<std::uint64_t> {
            const auto published = report.look().published;
            if (published.is_null()) return std::nullopt;
            return published.value("version", std::uint64_t{0});
          },
          .directory = flags.directory,
          .environment = {
              {"CAUSEWAY_DIRECTORY", std::filesystem::absolute(flags.directory).string()},
              {"CAUSEWAY_MODEL", std::filesystem::absolute(flags.directory / "current").string()}}};
}

// Two of them would write over each other.
diloco::Descriptor lock(const std::filesystem::path& directory) {
  diloco::create_private_directories(directory);
  std::optional<diloco::Descriptor> lock = diloco::lock_file(directory / "follow.lock");
  if (!lock)
    throw run::ConfigError("another follower uses " + directory.string() +
                           ": give this one a --directory of its own");
  return std::move(*lock);
}

int run_follow(const FollowFlags& flags) {
  const run::Config config = run::load_config(flags.config, flags.overrides);
  const diloco::Descriptor locked = lock(flags.directory);
  run::FollowReport report;
  asio::io_context context(1);
  run::CheckpointHook hook(context.get_executor(), hook_options(flags, report));
  std::optional<run::MetricsServer> http;
  if (!flags.http.empty())
    http.emplace(inter::parse_endpoint(flags.http), run::follow_pages(report));
  report.set_news([&] {
    hook.look();
    if (http) http->tell_version();
  });
  if (http)
    spdlog::info("serves /version, /metrics, /healthz and /readyz on port {}", http->port());
  const run::FollowOptions options = follow_options(config, flags);

  bool interrupted = false;
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&](const asio::error_code& error, int) {
    if (error) return;
    interrupted = true;
    context.stop();  // what is on disk is whole at any instant
  });
  std::exception_ptr failure;
  asio::co_spawn(context, hook.run(), [&](std::exception_ptr) { signals.cancel(); });
  asio::co_spawn(context, run::follow(context.get_executor(), config, options, report),
                 [&](std::exception_ptr error) {
                   failure = std::move(error);
                   failure ? hook.stop() : hook.finish();
                 });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return interrupted ? 130 : 0;
}

void add_flags(CLI::App& command, FollowFlags& flags) {
  command.add_option("CONFIG", flags.config, "The run's configuration file")->required();
  add_set_option(command, flags.overrides);
  command
      .add_option("--as", flags.name,
                  "Whose certificate to show: NAME of `causeway certs add-follower NAME`")
      ->required();
  command
      .add_option("--directory", flags.directory,
                  "Where the model goes, in DIRECTORY/current, and what is needed to go on")
      ->required();
  command.add_option("--region", flags.region,
                     "The nearest region, which is asked first (default: the first of the file)");
  command.add_option("--every", flags.every, "Publish every so many rounds")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--dtype", flags.dtype, "How the weights are written")
      ->check(CLI::IsMember({"bfloat16", "float32"}))
      ->capture_default_str();
  command.add_option("--keep", flags.keep, "Versions that stay on disk, the newest included")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--after", flags.after,
                     "A command for /bin/sh, started when a version is there (CAUSEWAY_MODEL, "
                     "CAUSEWAY_VERSION)");
  command.add_option("--http", flags.http,
                     "HOST:PORT where /version (/version?after=N waits for another one), /metrics, "
                     "/healthz and /readyz are served, to anybody who reaches it");
  command.add_option("--signatures", flags.signatures,
                     "How many regions must have signed a record (default: most of the file's)");
  command.add_option("--certificates", flags.certificates,
                     "Directory with ca.crt, NAME.crt and NAME.key (default: "
                     "certificates.directory)");
  add_repeated(command, "--peer", flags.peers,
               "REGION=HOST:PORT to dial instead of the advertised one");
}

}  // namespace

void add_follow(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<FollowFlags>();
  CLI::App* command = app.add_subcommand(
      "follow", "Keep the newest weights of a run that trains, for a server that loads them");
  add_flags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = run_follow(*flags); });
}

}  // namespace causeway::apps
