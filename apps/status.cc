// causeway status: what the regions of a run do and for whom they wait.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/region/run_directory.h"
#include "apps/run/watch/run_table.h"
#include "apps/run/watch/seen_region.h"
#include "inter/base/error.h"
#include "intra/base/error.h"

namespace causeway::apps {
namespace {

constexpr int kNobodyThere = 3;
constexpr std::chrono::seconds kWatchInterval{2};

struct StatusFlags {
  std::vector<std::string> targets;
  std::filesystem::path config;
  std::filesystem::path certificates = "certificates";
  std::string as;
  double timeout_s = 10;
  bool watch = false;
  bool json = false;
};

// What to look at: a directory of a region, or an address.
struct Target {
  std::string name;  // of the region, if that is known beforehand
  std::string where;
  std::filesystem::path directory = {};  // on this host, for when nobody answers there
};

// Of `causeway simulate` also those that were not started yet.
std::vector<std::filesystem::path> regions_to_show(const std::filesystem::path& directory) {
  const bool simulated = run::regions_folder(directory) != directory;
  if (simulated) return run::regions_in(directory, [](const auto&) { return true; });
  if (run::was_started(directory)) return {};
  return run::regions_in(directory, run::was_started);
}

bool is_run(const std::filesystem::path& directory) {
  return run::regions_folder(directory) != directory || !regions_to_show(directory).empty();
}

std::vector<Target> targets_of(const StatusFlags& flags) {
  std::vector<Target> targets;
  for (const std::string& given : flags.targets) {
    if (!is_run(given)) {
      targets.push_back({"", given});
      continue;
    }
    for (const std::filesystem::path& region : regions_to_show(given))
      targets.push_back({region.filename(), region});
  }
  if (!flags.config.empty()) {
    const run::Config config = run::load_config(flags.config, {});
    for (const run::RegionConfig& region : config.regions) {
      const bool dials = region.advertise.host.empty();
      targets.push_back({region.name, dials ? "" : inter::to_string(region.advertise),
                         run::region_path(config, region.name, {})});
    }
  }
  if (targets.empty())
    throw run::ConfigError(
        "name a run's directory, regions' directories or addresses, or --config");
  std::ranges::sort(targets, {}, &Target::name);
  return targets;
}

inter::Endpoint address_of(const std::string& target) {
  try {
    return inter::parse_endpoint(target);
  } catch (const std::system_error&) {
    throw run::ConfigError(target + ": neither a region's directory nor HOST:PORT");
  }
}

run::SeenRegion look(const Target& target, const StatusFlags& flags) {
  if (target.where.empty())
    throw run::ConfigError("it has no address in the file (advertise); ask it on its own host");
  if (std::filesystem::is_directory(target.where)) return run::look_at_directory(target.where);
  return run::look_at_address(
      address_of(target.where),
      {.certificates = flags.certificates,
       .as = flags.as,
       .deadline = std::chrono::milliseconds(std::llround(1e3 * flags.timeout_s))});
}

// Of one that does not answer. None: nothing of it is on this host, or not for this user.
std::optional<run::SeenRegion> left_on_this_host(const Target& target) {
  try {
    if (target.directory.empty() || !run::was_started(target.directory)) return std::nullopt;
    return run::look_at_directory(target.directory);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string text_of(const std::exception& error) {
  if (const auto* link = dynamic_cast<const inter::LinkError*>(&error)) return link->reason();
  const auto* coded = dynamic_cast<const std::system_error*>(&error);
  return coded == nullptr ? error.what() : intra::message_said_once(*coded);
}

// One that cannot be seen does not hide the others.
run::SeenRegion look_or_say_why(const Target& target, const StatusFlags& flags) {
  try {
    return look(target, flags);
  } catch (const std::exception& error) {
    if (const auto left = left_on_this_host(target)) return *left;
    run::SeenRegion unseen;
    unseen.name = target.name.empty() ? target.where : target.name;
    unseen.problem = text_of(error);
    unseen.undialled = target.where.empty();
    return unseen;
  }
}

// Of one region all that it says; its absence is an error.
int show_one(const Target& target, const StatusFlags& flags) {
  const run::SeenRegion region = look(target, flags);
  std::cout << (flags.json ? region.text : run::region_page(region));
  return region.is_well() ? 0 : kNobodyThere;
}

void note_ends(std::vector<run::SeenRegion>& regions, const StatusFlags& flags) {
  if (!flags.config.empty()) run::note_who_ended(regions);
  run::note_missed_ends(regions);
}

// All at the same time: one that does not answer keeps nobody waiting, and what is compared is of
// one moment.
std::vector<run::SeenRegion> look_together(const std::vector<Target>& targets,
                                           const StatusFlags& flags) {
  std::vector<std::future<run::SeenRegion>> looks;
  for (const Target& target : targets) {
    looks.push_back(std::async(std::launch::async, [&] { return look_or_say_why(target, flags); }));
  }
  std::vector<run::SeenRegion> regions;
  for (auto& look : looks) regions.push_back(look.get());
  return regions;
}

std::vector<run::SeenRegion> look_at_all(const std::vector<Target>& targets,
                                         const StatusFlags& flags) {
  std::vector<run::SeenRegion> regions = look_together(targets, flags);
  note_ends(regions, flags);
  // It may have heard of the end while the others were asked.
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].missed_end()) regions[i] = look_or_say_why(targets[i], flags);
  }
  note_ends(regions, flags);
  run::note_what_others_say(regions);
  run::compare_rounds(regions);
  return regions;
}

int show_all(const std::vector<Target>& targets, const StatusFlags& flags) {
  const std::vector<run::SeenRegion> regions = look_at_all(targets, flags);
  std::cout << (flags.json ? run::run_json(regions) : run::run_table(regions));
  return std::ranges::all_of(regions, &run::SeenRegion::is_well) ? 0 : kNobodyThere;
}

int show_once(const StatusFlags& flags) {
  const std::vector<Target> targets = targets_of(flags);
  const bool one = flags.targets.size() == 1 && flags.config.empty() && !is_run(flags.targets[0]);
  return one ? show_one(targets[0], flags) : show_all(targets, flags);
}

// Until Ctrl-C, or nobody reads it.
int show(const StatusFlags& flags) {
  int exit_code = show_once(flags);
  asio::io_context context;
  asio::steady_timer timer(context);
  while (flags.watch && std::cout.flush()) {
    timer.expires_after(kWatchInterval);
    timer.wait();
    if (!flags.json) std::fputs("\x1b[H\x1b[J", stdout);  // an empty screen
    exit_code = show_once(flags);
  }
  return exit_code;
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* command =
      app.add_subcommand("status", "Show what the regions of a run do and for whom they wait");
  command->add_option("WHERE", flags->targets,
                      "HOST:PORT of a region's coordinator, or the region's directory on this "
                      "host. Several of them, or the directory of a run, give a table");
  command->add_option("--config", flags->config,
                      "Ask every region of this configuration at the address it advertises");
  command->add_flag("--json", flags->json, "Print JSON; for one region, its status.json");
  command->add_flag("--watch", flags->watch, "Show it again every two seconds, until Ctrl-C");
  command
      ->add_option("--certificates", flags->certificates,
                   "For HOST:PORT: directory with ca.crt and a region's or an observer's "
                   "certificate and key")
      ->capture_default_str();
  command->add_option("--as", flags->as,
                      "Name of the certificate to use, if that directory has several");
  command->add_option("--timeout", flags->timeout_s, "Seconds to wait for each answer")
      ->check(number_from(0.1, 600))
      ->capture_default_str();
  command->footer(
      "Exit code 0: all regions run, or the run is over. 3: a region does not answer, hangs,\n"
      "falls behind, missed the end, or was stopped before the run was over (its last state is\n"
      "shown). With --config, if a region does not answer, its directory on this host is read.");
  command->callback([flags, &exit_code] { exit_code = show(*flags); });
}

}  // namespace causeway::apps
