#include "apps/run/simulate/region_processes.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/run/region/process.h"
#include "apps/run/region/region_files.h"
#include "apps/run/simulate/python_mistake.h"
#include "diloco/files/file_io.h"
#include "inter/base/text.h"
#include "intra/worker/worker_result.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;
constexpr int kWrongInput = 2;

// Workers share the cores. OpenMP threads that spin while they wait would take them from each
// other.
std::map<std::string, std::string> worker_environment(const Launch& launch, unsigned workers) {
  const unsigned threads = std::max(1U, launch.cores / workers);
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
                              const fs::path& directory, unsigned workers) {
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
  options.environment = worker_environment(launch, workers);
  options.log = directory / fmt::format("worker-{}.log", rank);
  return options;
}

// What the shell is to run. It makes way for a simple command, so that the command itself is our
// child: the kernel then ends it when we end, and tells us of its end.
std::string shell_line(const std::string& command) {
  const std::size_t begin = command.find_first_not_of(" \t");
  if (begin == std::string::npos || command.find_first_of(";&|(){}\n") != std::string::npos)
    return command;
  const std::string first = command.substr(begin, command.find_first_of(" \t", begin) - begin);
  const bool sets_variable = first.find('=') != std::string::npos;
  return (sets_variable ? "exec env " : "exec ") + command;
}

// 0: by no signal. A shell that did not make way tells of its command's signal by its exit code.
int killed_by(const ExitStatus& status) {
  constexpr int kSignals = 128, kSignalMax = 64;
  const bool told = status.code > kSignals && status.code <= kSignals + kSignalMax;
  return status.signal == 0 && told ? status.code - kSignals : status.signal;
}

// The user's program, which speaks for its region.
ProcessOptions program_command(const Launch& launch, const std::string& region) {
  const fs::path directory = fs::absolute(launch.directory.region(region));
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", shell_line(launch.worker)};
  for (auto& [name, value] : worker_environment(launch, total_workers(launch.config))) {
    if (std::getenv(name.c_str()) == nullptr) options.environment[name] = value;
  }
  options.environment["CAUSEWAY_REGION"] = region;
  options.environment["CAUSEWAY_DIRECTORY"] = directory.string();
  options.environment["CAUSEWAY_REGIONS"] = std::to_string(launch.config.regions.size());
  options.environment["CAUSEWAY_STEPS"] = std::to_string(launch.config.train.steps);
  options.environment["CAUSEWAY_SEED"] = std::to_string(launch.config.train.seed);
  options.log = directory / "worker-0.log";
  options.with_descendants = true;  // a shell, torchrun, loaders of data
  return options;
}

// Of a program that is started again.
struct Lives {
  RepeatedMistake mistakes;
  EarlyEnds early;
  std::uint64_t version = 0;  // of its region, when it ended last
};

// Its exit codes are its own. What has trained is started again; what never got so far is told at
// once, since it is most often a mistake in the command, and so is an exception that comes again.
Ending ending_of_program(const Launch& launch, const Monitor& monitor, const std::string& region,
                         const ExitStatus& status, Lives& lives) {
  const bool finished = intra::read_result(launch.directory.region(region)).has_value();
  if (status.ok() && finished) return {};
  const int signal = killed_by(status);
  if (signal == 0 && !finished && !monitor.has_worked(region))
    return {Ending::Kind::final, kWrongInput, " before it took part in the run", true};
  const fs::path log = launch.directory.region(region) / "worker-0.log";
  // After an exception a library's threads may still abort the program. If its region had got on
  // before, it may have been aborted because another process was gone.
  const std::uint64_t version = monitor.version(region);
  const bool got_on = std::exchange(lives.version, version) != version;
  const bool by_itself = signal == 0 || signal == SIGABRT;
  auto again = by_itself ? lives.mistakes.on_end(log) : std::nullopt;
  if (signal == SIGABRT && got_on) again.reset();
  if (again) {
    return {Ending::Kind::final, kWrongInput,
            ", twice in a row for the same exception (" + *again + "): correct the program", true};
  }
  if (!finished) {
    if (auto why = lives.early.on_end(status, version))
      return {Ending::Kind::final, kWrongInput, *why, true};
  }
  return {Ending::Kind::crashed, 1, finished ? "" : " before the run was over"};
}

Supervised supervised(std::string label, std::function<ProcessOptions()> command,
                      std::function<std::uint64_t()> progress) {
  Supervised task;
  task.label = std::move(label);
  task.command = std::move(command);
  task.progress = std::move(progress);
  return task;
}

}  // namespace

std::uint32_t total_workers(const Config& config) {
  std::uint32_t total = 0;
  for (const RegionConfig& region : config.regions) total += region.workers;
  return total;
}

std::vector<Supervised> training_processes(const Launch& launch, const Wan& wan,
                                           const Monitor& monitor) {
  const std::uint32_t workers = total_workers(launch.config);
  std::vector<Supervised> processes;
  for (const RegionConfig& region : launch.config.regions) {
    const std::string name = region.name;
    const auto progress = [&monitor, name] { return monitor.version(name); };
    processes.push_back(supervised(
        name + " coordinator",
        [&launch, &wan, name] { return coordinator_command(launch, wan, name); }, progress));
    processes.back().judge = [&monitor, name,
                              starts = FirstStarts()](const ExitStatus& status) mutable {
      return starts.judge(status, monitor.version(name) > 0 || monitor.has_worked(name));
    };
    for (std::uint32_t rank = 0; rank < region.workers; ++rank) {
      processes.push_back(supervised(
          fmt::format("{} worker {}", name, rank),
          [&launch, &wan, name, rank, workers] {
            ProcessOptions options =
                launch.worker.empty()
                    ? worker_command(launch, name, rank, launch.directory.region(name), workers)
                    : program_command(launch, name);
            options.network_namespace = wan.network_namespace(name);
            return options;
          },
          progress));
      if (launch.worker.empty()) continue;
      processes.back().shown = processes.back().label + " (`" + launch.worker + "`)";
      processes.back().judge = [&launch, &monitor, name,
                                lives = std::make_shared<Lives>()](const ExitStatus& status) {
        return ending_of_program(launch, monitor, name, status, *lives);
      };
    }
  }
  return processes;
}

bool baseline_is_one_process(const Config& config, unsigned cores) {
  const auto is_like_others = [](const RegionConfig& region) {
    return region.data_files.empty() && region.device == intra::Device::cpu;
  };
  return total_workers(config) > cores && config.train.timed_step_ms == 0 &&
         !config.data.per_region && std::ranges::all_of(config.regions, is_like_others);
}

std::vector<Supervised> baseline_processes(const Launch& launch, const std::string& generation) {
  const bool one = baseline_is_one_process(launch.config, launch.cores);
  const std::uint32_t world = one ? 1 : total_workers(launch.config);
  std::vector<Supervised> processes;
  for (const RegionConfig& region : launch.config.regions) {
    const fs::path directory = launch.directory.baseline(region.name);
    diloco::create_private_directories(directory);
    for (std::uint32_t rank = 0; rank < region.workers && processes.size() < world; ++rank) {
      ProcessOptions options = worker_command(launch, region.name, rank, directory, world);
      options.arguments.insert(
          options.arguments.end(),
          {"--synchronous-rank", std::to_string(processes.size()), "--synchronous-world",
           std::to_string(world), "--generation", generation});
      processes.push_back(supervised(
          one ? std::string("baseline worker")
              : fmt::format("baseline {} worker {}", region.name, rank),
          [options] { return options; }, [] { return std::uint64_t{0}; }));
    }
  }
  return processes;
}

asio::awaitable<std::string> sample_text(asio::any_io_executor executor, const Launch& launch,
                                         std::uint32_t tokens) {
  const Config& config = launch.config;
  const bool text =
      config.data.format == intra::DataOptions::Format::text || !config.origin.tokenizer.empty();
  if (tokens == 0 || !text || config.train.timed_step_ms > 0 || !config.built_in_trainer())
    co_return "";
  const std::filesystem::path& out = launch.directory.path();
  ProcessOptions generate;
  generate.arguments = {launch.program.string(), "generate",
                        (out / "checkpoints" / "final").string(), "--tokens",
                        std::to_string(tokens)};
  generate.environment = {{"OMP_NUM_THREADS", std::to_string(launch.cores)}};
  generate.output = out / "sample.txt";
  generate.log = out / "generate.log";
  std::string why;
  try {
    std::filesystem::remove(generate.output);
    Process process(std::move(executor), generate);
    const ExitStatus status = co_await process.wait();
    if (status.ok()) co_return inter::printable(read_text_file(generate.output));
    why = "generate ended with " + to_string(status) + "; see " + generate.log.string();
  } catch (const std::system_error& error) {
    why = error.what();
  }
  std::fprintf(stderr, "causeway: there is no sample of text, because %s\n", why.c_str());
  co_return "";
}

}  // namespace causeway::run
