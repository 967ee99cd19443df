// causeway follow: the newest weights of a run that trains, exact, for whoever only reads them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/config/link_flags.h"
#include "apps/run/config/spool_need.h"
#include "apps/run/follow/follow_loop.h"
#include "apps/run/follow/follow_report.h"
#include "apps/run/follow/weights_image.h"
#include "apps/run/follow/weights_patch.h"
#include "apps/run/region/own_process.h"
#include "apps/run/region/region_files.h"
#include "apps/run/region/signal_watch.h"
#include "apps/run/region/start_needs.h"
#include "apps/run/watch/checkpoint_hook.h"
#include "apps/run/watch/metrics_server.h"
#include "diloco/files/file_io.h"
#include "diloco/follow/follower_server.h"
#include "inter/door/tls_door.h"
#include "inter/mesh/resolve.h"
#include "inter/tls/pki.h"

namespace causeway::apps {
namespace {

struct FollowFlags {
  std::filesystem::path config, directory, certificates;
  std::vector<std::string> overrides, peers, from;
  std::string name, region, dtype = "bfloat16", by = "auto", after, http, serve;
  std::uint64_t every = 1, keep = 2, signatures = 0;
  std::uint32_t start_wait_s = run::kStartWait.count();
};

void put_first(std::vector<run::FollowedRegions::Address>& addresses, const std::string& region) {
  const auto found = std::ranges::find(addresses, region, &run::FollowedRegions::Address::region);
  if (found == addresses.end())
    throw run::ConfigError("--region " + region + ": no region of that name");
  std::rotate(addresses.begin(), found, found + 1);
}

// "NAME=HOST:PORT" of another follower.
run::FollowedRegions::Address follower_at(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw run::ConfigError("--from " + text + ": must be NAME=HOST:PORT of another follower");
  return {text.substr(0, equals) + ".follower", inter::parse_endpoint(text.substr(equals + 1))};
}

// What a version takes on average, in bytes for each parameter.
constexpr double kPatchBytes = 1.4;  // bench/RESULTS.md, "Following a run"
double payload_bytes(const run::Config& config, std::uint64_t every) {
  const run::SpoolNeed need = run::spool_need(config);
  const double parameters = static_cast<double>(need.snapshot_bytes) / (2 * sizeof(float));
  const double in_a_round = static_cast<double>(config.regions.size() * need.payload_bytes);
  return static_cast<double>(every) * in_a_round / parameters;
}

// As --by says; or the way that takes fewer bytes, if it does all that is wanted.
bool takes_weights_alone(const run::Config& config, const FollowFlags& flags) {
  if (flags.by == "payloads") return false;
  std::string needs;
  if (flags.dtype == "float32") needs = "--dtype float32";
  if (!flags.serve.empty()) needs = "--serve";
  if (flags.by == "patches" && !needs.empty())
    throw run::ConfigError("--by patches: " + needs + " needs the run's whole state: leave it out");
  if (flags.by == "patches") return true;
  const bool rare = config.train.checkpoint_rounds > flags.every;  // regions make snapshots so
  return needs.empty() && !rare && kPatchBytes < payload_bytes(config, flags.every);
}

run::FollowOptions follow_options(const run::Config& config, const FollowFlags& flags) {
  for (const std::string& address : {flags.http, flags.serve})
    if (!address.empty()) inter::parse_endpoint(address);  // refused before a directory is made
  run::FollowOptions options;
  options.directory = flags.directory;
  options.self = flags.name + ".follower";
  options.credentials = inter::credentials_in(
      flags.certificates.empty() ? config.certificates : flags.certificates, flags.name);
  run::LinkFlags links;
  links.region = options.self;
  links.peers = flags.peers;
  const auto endpoints = run::peer_addresses(config, links);
  options.weights_alone = takes_weights_alone(config, flags);
  options.trusted = run::names_of(config);
  // A witness signs records, and has no weights.
  if (!config.witness.name.empty() && !options.weights_alone)
    options.trusted.push_back(config.witness.name);
  for (const std::string& region : options.trusted)
    options.addresses.push_back({region, endpoints.at(region)});
  if (!flags.region.empty()) put_first(options.addresses, flags.region);
  for (auto from = flags.from.rbegin(); from != flags.from.rend(); ++from)
    options.addresses.insert(options.addresses.begin(), follower_at(*from));
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

std::filesystem::path lock_file_in(const std::filesystem::path& directory) {
  return directory / "follow.lock";
}

std::string another_uses(const std::filesystem::path& directory) {
  return "another follower uses " + directory.string() +
         ": stop it, or give this one a --directory of its own";
}

// A follower that was stopped has its directory and its ports to its end.
run::StartNeeds start_needs(const FollowFlags& flags) {
  run::StartNeeds needs{.who = flags.name,
                        .directory = flags.directory,
                        .credentials = {},
                        .listens = {},
                        .listens_for = "programs (--http) and other followers (--serve)",
                        .lock = lock_file_in(flags.directory),
                        .lock_is_held = another_uses(flags.directory)};
  for (const std::string& address : {flags.http, flags.serve})
    if (!address.empty()) needs.listens.push_back(inter::parse_endpoint(address));
  return needs;
}

// It would write over what a region keeps under the same names. A region that was imported has a
// ledger, and was not started yet.
void refuse_a_regions(const std::filesystem::path& directory) {
  const bool new_here = !std::filesystem::exists(lock_file_in(directory));
  if (run::was_started(directory) || (new_here && std::filesystem::exists(directory / "ledger")))
    throw run::ConfigError(directory.string() +
                           " is a region's own directory: give this follower another --directory");
}

// Two of them would write over each other.
diloco::Descriptor lock(const std::filesystem::path& directory) {
  diloco::create_private_directories(directory);
  std::optional<diloco::Descriptor> lock = diloco::lock_file(lock_file_in(directory));
  if (lock) return std::move(*lock);
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                          another_uses(directory) + diloco::lock_holder(lock_file_in(directory)));
}

// Other followers read from this one what it has: what they believe, regions have signed.
class Served {
 public:
  Served(asio::io_context& context, const run::Config& config, const run::FollowOptions& options,
         const std::string& address)
      : context_(context),
        server_({.owner = options.self,
                 .signs = false,
                 .directory = options.directory,
                 .credentials = options.credentials,
                 .settings = run::shared_settings(config),
                 .bytes_per_s = run::follower_bytes_per_s(config),
                 .weights = {run::write_weights_image, run::write_weights_patch}}),
        door_(context.get_executor(), {.owner = options.self, .credentials = options.credentials},
              [this](inter::TlsDoor::Guest guest) {
                if (inter::is_follower(guest.name)) server_.admit(std::move(guest));
              }) {
    const inter::Endpoint bind = inter::parse_endpoint(address);
    try {
      door_.listen(inter::listening_address(bind, std::chrono::seconds(10)));
    } catch (const std::system_error& error) {
      inter::throw_cannot_listen(bind, error.code());
    }
    door_.start();
    spdlog::info("serves other followers on port {}", door_.port());
  }
  void tell() { server_.tell(); }
  asio::awaitable<void> see_off() {
    door_.close();
    co_await server_.see_off(context_.get_executor());
  }

 private:
  asio::io_context& context_;
  diloco::FollowerServer server_;
  inter::TlsDoor door_;
};

// Returns the exit code.
int run_to_the_end(asio::io_context& context, const std::function<asio::awaitable<void>()>& follow,
                   run::CheckpointHook& hook) {
  bool interrupted = false;
  run::SignalWatch signals(context.get_executor());
  signals.wait([&](run::SignalWatch::Wish) {
    interrupted = true;
    context.stop();  // what is on disk is whole at any instant
  });
  std::exception_ptr failure;
  asio::co_spawn(context, hook.run(), [&](std::exception_ptr) { signals.cancel(); });
  asio::co_spawn(context, follow, [&](std::exception_ptr error) {
    failure = std::move(error);
    failure ? hook.stop() : hook.finish();
  });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return interrupted ? 130 : 0;
}

int run_follow(const FollowFlags& flags) {
  run::raise_open_files_limit();
  run::outlive_readers();
  const run::Config config = run::load_config(flags.config, flags.overrides);
  run::FollowOptions options = follow_options(config, flags);
  refuse_a_regions(flags.directory);
  run::wait_for(start_needs(flags), std::chrono::seconds(flags.start_wait_s));
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
  std::optional<Served> served;
  if (!flags.serve.empty()) {
    served.emplace(context, config, options, flags.serve);
    options.tell = [&served] { served->tell(); };
  }
  spdlog::info("{}", options.weights_alone
                         ? "takes the weights alone, by patches (--by payloads: the whole state)"
                         : "computes each version from the run's payloads");
  const auto follow = [&]() -> asio::awaitable<void> {
    co_await run::follow(context.get_executor(), config, options, report);
    if (served) co_await served->see_off();
  };

  return run_to_the_end(context, follow, hook);
}

void add_flags(CLI::App& command, FollowFlags& flags) {
  command.add_option("CONFIG", flags.config, "The run's configuration file")->required();
  add_set_option(command, flags.overrides);
  command
      .add_option("--as", flags.name,
                  "Name of the certificate to show, as given to `causeway certs add-follower NAME`")
      ->required();
  command
      .add_option("--directory", flags.directory,
                  "Directory for the model (DIRECTORY/current), and for what a restart needs")
      ->required();
  command.add_option("--region", flags.region,
                     "The nearest region; it is asked first (default: the first of the file)");
  command.add_option("--every", flags.every, "Rounds between two published versions")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--dtype", flags.dtype, "Number format of the written weights")
      ->check(CLI::IsMember({"bfloat16", "float32"}))
      ->capture_default_str();
  command
      .add_option("--by", flags.by,
                  "payloads: compute every round's state from what the regions sent. patches: "
                  "fetch only the weights, in bf16. auto: whichever takes fewer bytes")
      ->check(CLI::IsMember({"auto", "payloads", "patches"}))
      ->capture_default_str();
  command.add_option("--keep", flags.keep, "Versions that stay on disk, the newest included")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--after", flags.after,
                     "A command for /bin/sh, run for each new version (CAUSEWAY_MODEL and "
                     "CAUSEWAY_VERSION name it)");
  command.add_option("--http", flags.http,
                     "HOST:PORT to serve /version (/version?after=N waits for a newer one), "
                     "/metrics, /healthz and /readyz at, without a password");
  command.add_option("--serve", flags.serve,
                     "HOST:PORT where other followers may read what this one has");
  add_repeated(command, "--from", flags.from,
               "NAME=HOST:PORT of a follower with --serve; it is asked before the regions");
  command
      .add_option("--signatures", flags.signatures,
                  "How many regions must have signed a record (default: a majority of the file's)")
      ->check(number_from(0, kCountMax));
  command.add_option("--certificates", flags.certificates,
                     "Directory with ca.crt, NAME.crt and NAME.key (default: "
                     "certificates.directory)");
  add_repeated(command, "--peer", flags.peers,
               "REGION=HOST:PORT to dial instead of the advertised one");
  add_start_wait(command, flags.start_wait_s, "its directory, a free port, an address or a disk");
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
