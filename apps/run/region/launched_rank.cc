#include "apps/run/region/launched_rank.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "apps/run/config/config.h"

namespace causeway::run {
namespace {

struct Launcher {
  const char* name;
  const char *rank, *world, *local_rank, *local_world;
  // Set also where this launcher started nothing, as in the shell of an allocation.
  bool world_alone_says_nothing;
};

constexpr std::array<Launcher, 3> kLaunchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    Launcher{"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, true},
    Launcher{"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", false}};

struct Told {
  const Launcher* launcher;
  std::uint32_t rank, world, local_rank, local_world;
};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  // An empty variable is none.
  std::optional<std::string> text(const char* name) const {
    std::optional<std::string> value = name == nullptr ? std::nullopt : environment_(name);
    return value && value->empty() ? std::nullopt : value;
  }

  std::optional<std::uint32_t> number(const char* name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::uint32_t parsed = 0;
    const char* const end = value->data() + value->size();
    const auto result = std::from_chars(value->data(), end, parsed);
    if (result.ec != std::errc() || result.ptr != end)
      throw ConfigError(std::string(name) + "=" + *value + ": not a number; give --rank instead");
    return parsed;
  }

  std::string shown(const char* name) const { return std::string(name) + "=" + *text(name); }

 private:
  const Environment& environment_;
};

std::optional<Told> ask(const Reader& reader, const Launcher& launcher) {
  const auto rank = reader.number(launcher.rank), world = reader.number(launcher.world);
  if (!rank && (!world || launcher.world_alone_says_nothing)) return std::nullopt;
  if (!rank || !world) {
    throw ConfigError(reader.shown(rank ? launcher.rank : launcher.world) + " is set but " +
                      (rank ? launcher.world : launcher.rank) +
                      " is not: set both, or give --rank");
  }
  if (*rank >= *world) {
    throw ConfigError(reader.shown(launcher.rank) + " must be below " +
                      reader.shown(launcher.world));
  }
  return Told{&launcher, *rank, *world, reader.number(launcher.local_rank).value_or(*rank),
              reader.number(launcher.local_world).value_or(0)};
}

std::optional<Told> ask_named(const Reader& reader, const std::string& name) {
  for (const Launcher& launcher : kLaunchers) {
    if (name != launcher.name) continue;
    if (const auto told = ask(reader, launcher)) return told;
    throw ConfigError("--launcher " + name + ": " + launcher.rank + " is not set");
  }
  throw ConfigError("--launcher " + name + ": must be torchrun, slurm, openmpi or none");
}

// One may have been started by another, as torchrun by srun: only the user knows which is meant.
std::optional<Told> ask_all(const Reader& reader) {
  std::optional<Told> first;
  for (const Launcher& launcher : kLaunchers) {
    const auto told = ask(reader, launcher);
    if (told && first && (told->rank != first->rank || told->world != first->world)) {
      throw ConfigError(reader.shown(first->launcher->rank) + " of " +
                        reader.shown(first->launcher->world) + ", but " +
                        reader.shown(launcher.rank) + " of " + reader.shown(launcher.world) +
                        ": say which is meant with --launcher " + first->launcher->name +
                        " or --launcher " + launcher.name);
    }
    if (!first) first = told;
  }
  return first;
}

bool on_several_hosts(const Reader& reader, const Told& told) {
  if (std::string_view(told.launcher->name) == "slurm")
    return reader.number("SLURM_NNODES").value_or(1) > 1;
  return reader.number(told.launcher->local_world).value_or(told.world) < told.world;
}

// RANK may be set by hand, and SLURM_PROCID is in the script of a job.
bool is_launchers_child(const Reader& reader, const Told& told) {
  const std::string_view name = told.launcher->name;
  return name == "openmpi" || (name == "torchrun" && reader.text("TORCHELASTIC_RUN_ID"));
}

std::string meeting_host(const Reader& reader, const Told& told) {
  const auto address = reader.text("MASTER_ADDR"), port = reader.text("MASTER_PORT");
  // Only the address is needed: ranks meet through the region's directory. But half of a pair is a
  // mistake in whatever set it.
  if (port && !address)
    throw ConfigError("MASTER_PORT=" + *port + " is set but MASTER_ADDR is not: set both or none");
  if (address) return *address;
  if (!on_several_hosts(reader, told)) return {};
  if (const auto launched_from = reader.text("SLURM_LAUNCH_NODE_IPADDR")) return *launched_from;
  throw ConfigError(
      "the region's workers are on several hosts: set MASTER_ADDR to one of them, so "
      "that they meet on its network");
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const Environment& environment,
                                          const std::string& launcher, std::uint32_t workers) {
  if (launcher == "none") return std::nullopt;
  const Reader reader(environment);
  const auto told = launcher.empty() ? ask_all(reader) : ask_named(reader, launcher);
  if (!told) return std::nullopt;
  if (told->world != workers) {
    throw ConfigError(
        fmt::format("{}, but the region has workers = {}: start as many, or change regions.workers",
                    reader.shown(told->launcher->world), workers));
  }
  return LaunchedRank{told->rank, told->local_rank, told->local_world, meeting_host(reader, *told),
                      is_launchers_child(reader, *told)};
}

}  // namespace causeway::run
