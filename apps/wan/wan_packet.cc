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

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/run/region/own_process.h"
#include "apps/wan/wan_console.h"
#include "apps/wan/wan_sim.h"
#include "wan-sim/packet/packet_capture.h"
#include "wan-sim/packet/packet_wan.h"

namespace causeway::apps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{1};
constexpr std::chrono::seconds kRecordInterval{5};

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
    run::restore_signals();
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
    if (link.datagrams + link.datagrams_lost + link.datagrams_dropped == 0) continue;
    std::printf("%s:%s  passed %.1f MB  lost %llu  dropped by the queue %llu packets\n",
                pair.first.c_str(), pair.second.c_str(), static_cast<double>(link.bytes) / 1e6,
                static_cast<unsigned long long>(link.datagrams_lost),
                static_cast<unsigned long long>(link.datagrams_dropped));
  }
}

void print_capture(const wan_sim::PacketCapture& capture) {
  const wan_sim::CaptureState& state = capture.state();
  std::printf("%s  %llu packets that arrived, %llu lost ones, %.1f MB%s\n",
              capture.directory().c_str(), static_cast<unsigned long long>(state.arrived),
              static_cast<unsigned long long>(state.lost), static_cast<double>(state.bytes) / 1e6,
              state.left_out > 0 ? fmt::format("; {} left out", state.left_out).c_str() : "");
}

class PacketCommand {
 public:
  PacketCommand(const WanSimFlags& flags, const wan_sim::Scenario& scenario)
      : flags_(flags),
        work_(context_.get_executor()),
        record_timer_(context_),
        console_(flags, scenario, context_.get_executor()) {
    if (!flags.pcap.directory.empty()) capture_.emplace(flags.pcap, scenario);
    if (capture_) capture_->turn(!flags.pcap_off);
    wan_.emplace(scenario, wan_sim::PacketOptions{.on_event = console_.on_event(),
                                                  .named = !flags.unnamed,
                                                  .capture = capture_ ? &*capture_ : nullptr});
    if (!flags.run_in.empty()) wan_->namespaces().address(flags.run_in);  // unknown: refused
    console_.attach(*wan_, capture_ ? &*capture_ : nullptr);
    for (const std::string& region : scenario.regions) show(region);
    std::fflush(stdout);
  }

  int run() {
    run::watch_stop_signals();
    run::outlive_readers();
    begun_ = Clock::now();
    if (!flags_.program.empty()) program_ = start_program(*wan_, flags_.run_in, flags_.program);
    if (capture_) capture_->start();
    console_.answer();
    if (!program_) std::printf("Ctrl-C ends it.\n");
    std::fflush(stdout);
    record_in_time();
    wan_->run([this] { return is_over(); });
    if (program_ && !status_) ::kill(*program_, SIGTERM);
    return finish();
  }

 private:
  void show(const std::string& region) {
    const WanRegion made{region, wan_->namespaces().address(region),
                         wan_->namespaces().enter_command(region)};
    std::printf("%s  %s  enter with: %s COMMAND\n", region.c_str(), made.address.c_str(),
                made.enter.c_str());
    console_.add(made);
  }
  // Asked by the engine between packets. Whoever asks this program something waits meanwhile.
  bool is_over() {
    const auto now = Clock::now();
    if (now >= polled_at_ + kPollInterval) {
      polled_at_ = now;
      context_.poll();
    }
    int ended = 0;
    if (program_ && ::waitpid(*program_, &ended, WNOHANG) == *program_)
      status_ = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
    const bool enough =
        flags_.seconds && std::chrono::duration<double>(now - begun_).count() >= *flags_.seconds;
    return status_ || run::stop_requested() || enough;
  }
  void record_in_time() {
    record_timer_.expires_after(kRecordInterval);
    record_timer_.async_wait([this](std::error_code cancelled) {
      if (cancelled) return;
      console_.record_figures();
      record_in_time();
    });
  }
  int finish() {
    const wan_sim::Verdict verdict = console_.judge();
    print_figures(*wan_);
    if (capture_) {
      capture_->finish();
      print_capture(*capture_);
    }
    std::printf("%s\n", wan_sim::to_string(verdict).c_str());
    console_.record_verdict(verdict);
    if (run::stop_requested()) return kExitInterrupted;
    if (status_.value_or(0) != 0) return *status_;
    return verdict.valid() ? 0 : kExitInvalid;
  }

  const WanSimFlags& flags_;
  asio::io_context context_{1};  // what is not packets; run between them
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer record_timer_;
  WanConsole console_;
  std::optional<wan_sim::PacketCapture> capture_;
  std::optional<wan_sim::PacketWan> wan_;
  Clock::time_point begun_, polled_at_;
  std::optional<pid_t> program_;
  std::optional<int> status_;
};

}  // namespace

int run_wan_packet(const WanSimFlags& flags, const wan_sim::Scenario& scenario) {
  if (flags.run_in.empty() != flags.program.empty()) {
    throw CLI::ValidationError("--run", "needs a program: --run REGION -- PROGRAM ARGUMENTS...");
  }
  return PacketCommand(flags, scenario).run();
}

}  // namespace causeway::apps
