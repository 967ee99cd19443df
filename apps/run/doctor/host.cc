#include "apps/run/doctor/checks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "apps/run/config/spool_need.h"
#include "apps/run/page/format.h"
#include "intra/step/memory_need.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLook{1};
// Of a coordinator: per other region its connections and those that come while they are replaced.
constexpr std::uint64_t kFilesOfAPeer = 48, kFilesOfAProcess = 128;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
constexpr std::uint64_t kAddressBytesOfAProcess = 2'000'000'000;
constexpr double kBusyCores = 0.3;  // that nobody misses

std::map<std::string, std::uint64_t> ticks_by_program() {
  std::map<std::string, std::uint64_t> ticks;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::isdigit(entry.path().filename().string()[0]) || !std::getline(file, line)) continue;
    const std::size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) continue;
    std::istringstream fields(line.substr(close + 2));
    std::string field;
    for (int skipped = 0; skipped < 11; ++skipped) fields >> field;
    std::uint64_t user = 0, system = 0;
    if (fields >> user >> system)
      ticks[line.substr(open + 1, close - open - 1) + " (pid " + entry.path().filename().string() +
            ")"] = user + system;
  }
  return ticks;
}

struct CpuTicks {
  double all = 0, idle = 0;
};

CpuTicks cpu_ticks() {
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  CpuTicks ticks;
  double value = 0;
  for (int field = 0; field < 8 && file >> value; ++field) {
    ticks.all += value;
    if (field == 3 || field == 4) ticks.idle += value;  // idle, iowait
  }
  return ticks;
}

void look_who_is_busy(HostFigures& host) {
  const auto before = ticks_by_program();
  const CpuTicks then = cpu_ticks();
  asio::io_context context;
  asio::steady_timer(context, kLook).wait();
  const CpuTicks now = cpu_ticks();
  const double all = now.all - then.all;
  if (all > 0) {
    host.busy_cores = (1 - (now.idle - then.idle) / all) * static_cast<double>(host.host_cores);
  }
  std::uint64_t most = 0;
  for (const auto& [program, ticks] : ticks_by_program()) {
    const auto known = before.find(program);
    const std::uint64_t spent = known == before.end() ? 0 : ticks - known->second;
    if (spent <= most) continue;
    most = spent;
    host.busiest = program;
  }
}

std::uint64_t limit_of(__rlimit_resource resource, rlim_t rlimit::*which) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return kNoLimit;
  return limit.*which == RLIM_INFINITY ? kNoLimit : limit.*which;
}

bool has_cpu_flag(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return (line + " ").find(" " + flag + " ") != std::string::npos;
  }
  return false;
}

Finding judge_cpu(const HostFigures& host) {
  const unsigned count = host.cores.count;
  const std::string cores =
      format_count(count) + (count == 1 ? " core" : " cores") +
      (host.cores.quota == 0
           ? ""
           : fmt::format(" (the quota of {} is {:.3g})", host.cores.limit, host.cores.quota));
  if (!host.avx2)
    return warn("processor", cores + " without AVX2",
                "steps on this CPU are several times slower than on one with AVX2");
  return ok("processor", cores + (host.amx    ? ", bf16 in AMX"
                                  : host.bf16 ? ", bf16 in AVX-512"
                                              : ", AVX2; bf16 is rounded in software"));
}

// Where this process gets a part of the host's cores alone, others may keep the rest busy.
Finding judge_load(const HostFigures& host) {
  const std::string busy = format_fixed(host.busy_cores, 1) + " of " +
                           format_count(host.host_cores) + " cores were busy for a second";
  const double for_others = double(host.host_cores) - host.cores.count;
  if (host.busy_cores <= std::max(kBusyCores, for_others)) return ok("load", busy);
  return warn("load", busy + (host.busiest.empty() ? "" : ", most with " + host.busiest),
              "end what else runs here, or a step takes longer in this region than in the others");
}

Finding judge_openmp(const HostFigures& host, const RegionConfig& region) {
  const auto value = [&](const char* name) {
    const auto found = host.openmp.find(name);
    return found == host.openmp.end() ? std::string() : found->second;
  };
  const std::string threads = value("OMP_NUM_THREADS"), policy = value("OMP_WAIT_POLICY");
  const std::uint64_t wanted = threads.empty()
                                   ? host.cores.count
                                   : std::max(1UL, std::strtoul(threads.c_str(), nullptr, 10));
  const std::string share = std::to_string(std::max(1U, host.cores.count / region.workers));
  if (policy == "active" || policy == "ACTIVE")
    return warn("OpenMP", "OMP_WAIT_POLICY=active: threads that wait keep their cores busy",
                "unset it: the coordinator and other workers need these cores");
  if (region.device == intra::Device::cpu && wanted * region.workers > host.cores.count)
    return warn("OpenMP",
                fmt::format("{} workers with {} threads each on {} cores", region.workers, wanted,
                            host.cores.count),
                "set OMP_NUM_THREADS=" + share + " if all of them run on this host");
  return ok("OpenMP", fmt::format("{} threads for each worker", wanted));
}

Finding judge_files(const HostFigures& host, const Config& config) {
  const std::uint64_t need = kFilesOfAProcess + kFilesOfAPeer * config.regions.size();
  const std::string text = "a process may open " + format_count(host.open_files_max) + " files";
  if (host.open_files_max < need)
    return fail("open files", text + ", and a coordinator needs up to " + format_count(need),
                fmt::format("ulimit -n {}, or LimitNOFILE= of a systemd unit", need));
  return ok("open files", host.open_files_max == kNoLimit ? "no limit" : text);
}

Findings judge_file_size(const HostFigures& host, const Config& config) {
  if (host.file_bytes_max == kNoLimit) return {};
  const std::uint64_t need =
      config.built_in_trainer() ? spool_need(config).snapshot_bytes : 1ULL << 30;
  const std::string text =
      "a file may have at most " + format_bytes(static_cast<double>(host.file_bytes_max));
  if (host.file_bytes_max >= need) return {ok("file size", text)};
  return {fail("file size",
               text + ", and a snapshot has " + format_bytes(static_cast<double>(need)),
               "ulimit -f unlimited")};
}

// Of addresses a process takes more than of memory: libraries, its threads' stacks and heaps, the
// data that it maps; and a GPU's driver takes all of them.
Findings judge_addresses(const HostFigures& host, const RegionConfig& region, std::uint64_t need) {
  if (host.address_bytes_max == kNoLimit) return {};
  const std::string text = "a process may have at most " +
                           format_bytes(static_cast<double>(host.address_bytes_max)) +
                           " of addresses";
  if (region.device == intra::Device::cuda)
    return {fail("address space", text + ", and a GPU's driver needs all of them",
                 "ulimit -v unlimited")};
  const std::uint64_t wanted = need + kAddressBytesOfAProcess;
  if (host.address_bytes_max < wanted)
    return {fail("address space",
                 text + ", and a worker needs up to " + format_bytes(static_cast<double>(wanted)),
                 "ulimit -v unlimited")};
  return {ok("address space", text)};
}

std::uint64_t memory_need(const Config& config, const RegionConfig& region) {
  if (!config.built_in_trainer()) return 0;
  return intra::held_bytes(intra::memory_need(worker_options(config, region.name, 0, ".")));
}

Findings judge_memory(const HostFigures& host, const RegionConfig& region, std::uint64_t need) {
  const auto bytes = [](std::uint64_t count) { return format_bytes(static_cast<double>(count)); };
  const std::string free = bytes(host.memory.available_bytes) + " are free";
  if (need == 0) return {ok("memory", free)};
  const std::string text = free + ", a worker needs at most " + bytes(need) +
                           (region.workers > 1 ? " of each rank" : "");
  if (host.memory.total_bytes < need)
    return {fail("memory",
                 text + ", and " + (host.memory.limit.empty() ? "this host" : host.memory.limit) +
                     " has " + bytes(host.memory.total_bytes),
                 "a host with more memory, a smaller model, or more ranks on "
                 "several hosts with train.shard_optimizer = true")};
  if (host.memory.available_bytes < need)
    return {warn("memory", text, "end what else needs memory here: it may not be enough")};
  return {ok("memory", text)};
}

}  // namespace

HostFigures look_at_host() {
  HostFigures host{.cores = intra::usable_cores(),
                   .host_cores = std::max(1U, std::thread::hardware_concurrency()),
                   .memory = intra::host_memory(),
                   // Coordinators and workers raise it.
                   .open_files_max = limit_of(RLIMIT_NOFILE, &rlimit::rlim_max),
                   .file_bytes_max = limit_of(RLIMIT_FSIZE, &rlimit::rlim_cur),
                   .address_bytes_max = limit_of(RLIMIT_AS, &rlimit::rlim_cur),
                   .avx2 = has_cpu_flag("avx2"),
                   .bf16 = has_cpu_flag("avx512_bf16"),
                   .amx = has_cpu_flag("amx_bf16")};
  look_who_is_busy(host);
  for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY"}) {
    if (const char* value = std::getenv(name)) host.openmp[name] = value;
  }
  return host;
}

Findings judge_host(const HostFigures& host, const Config& config, const std::string& region) {
  const RegionConfig& own = region_in(config, region);
  const std::uint64_t need = memory_need(config, own);
  Findings found{judge_cpu(host), judge_load(host), judge_openmp(host, own),
                 judge_files(host, config)};
  for (const Findings& more : {judge_file_size(host, config), judge_memory(host, own, need),
                               judge_addresses(host, own, need)})
    found.insert(found.end(), more.begin(), more.end());
  return found;
}

}  // namespace causeway::run
