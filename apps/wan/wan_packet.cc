// causeway wan-sim with the packet engine: namespaces to run programs in, and the emulator between.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/run/region/own_process.h"
#include "apps/wan/wan_sim.h"
#include "wan-sim/packet/packet_wan.h"

namespace causeway::apps {
namespace {

using Clock = std::chrono::steady_clock;

pid_t start_program(const wan_sim::PacketWan& wan, const std::string& region,
                    std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot start " + words[0] + "; free some memory or processes");
  }
  if (child > 0) return child;
  // Nothing may leave the child: unwinding would take the parent's namespaces away.
  try {
    wan.namespaces().enter(region);
    run::unblock_stop_signals();
    ::execvp(argv[0], argv.data());
    std::fprintf(stderr, "causeway: cannot run %s: %s\n", argv[0],
                 std::generic_category().message(errno).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "causeway: %s\n", error.what());
  }
  ::_exit(127);
}

void print_figures(const wan_sim::PacketWan& wan) {
  for (const auto& [pair, link] : wan.stats()) {
    if (link.bytes == 0 && link.lost_packets == 0) continue;
    std::printf("%s:%s  passed %.1f MB  lost %llu  dropped by the queue %llu packets\n",
                pair.first.c_str(), pair.second.c_str(), static_cast<double>(link.bytes) / 1e6,
                static_cast<unsigned long long>(link.lost_packets),
                static_cast<unsigned long long>(link.dropped_packets));
  }
  std::printf("%s\n", wan_sim::to_string(wan.verdict()).c_str());
}

void print_regions(const wan_sim::PacketWan& wan, const wan_sim::Scenario& scenario) {
  for (const std::string& region : scenario.regions) {
    std::printf("%s  %s  enter with: %s COMMAND\n", region.c_str(),
                wan.namespaces().address(region).c_str(),
                wan.namespaces().enter_command(region).c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int run_wan_packet(const WanSimFlags& flags, const wan_sim::Scenario& scenario) {
  if (flags.run_in.empty() != flags.program.empty()) {
    throw CLI::ValidationError("--run", "needs a program: --run REGION -- PROGRAM ARGUMENTS...");
  }
  wan_sim::PacketWan wan(scenario);
  if (!flags.run_in.empty()) wan.namespaces().address(flags.run_in);  // an unknown one is refused
  print_regions(wan, scenario);
  run::watch_stop_signals();
  const auto begin = Clock::now();
  const auto over = [&] {
    return flags.seconds &&
           std::chrono::duration<double>(Clock::now() - begin).count() >= *flags.seconds;
  };
  std::optional<int> status;
  const pid_t program = flags.program.empty() ? 0 : start_program(wan, flags.run_in, flags.program);
  wan.run([&] {
    int ended = 0;
    if (program > 0 && ::waitpid(program, &ended, WNOHANG) == program) {
      status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
    }
    return status.has_value() || run::stop_requested() || over();
  });
  if (program > 0 && !status) ::kill(program, SIGTERM);
  print_figures(wan);
  if (run::stop_requested()) return kExitInterrupted;
  if (status.value_or(0) != 0) return *status;
  return wan.verdict().valid() ? 0 : kExitInvalid;
}

}  // namespace causeway::apps
