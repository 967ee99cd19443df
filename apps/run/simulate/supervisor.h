// Keeps a set of processes running until each has ended well: restarts what dies, and ends
// everything when one says that the run cannot go on.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "apps/run/region/process.h"
#include "apps/run/simulate/restart_policy.h"
#include "intra/base/host_memory.h"

namespace causeway::run {

struct Supervised {
  std::string label;                        // "us-east worker 0"
  std::function<ProcessOptions()> command;  // asked before every start
  std::function<std::uint64_t()> progress;  // see RestartPolicy
  std::function<Ending(const ExitStatus&)> judge = ending_of_ours;
  std::string shown = {};  // what messages call it; empty: its label
};

// A process died and is started again after the pause.
struct Death {
  const Supervised& process;
  const ExitStatus& status;
  std::chrono::milliseconds pause;
  const std::filesystem::path& log;
};

struct SupervisionOutcome {
  // 0; 2, 3 or 4 from a process; 1 died too often, or 5 for want of room; 130 interrupted
  int exit_code = 0;
  std::string label;  // of the process that ended the run
  // One sentence: why the run ended, or which process was interrupted and could not save. Else
  // empty.
  std::string problem;
  std::filesystem::path log;
  bool mendable = false;  // as in Ending
};

class Supervisor {
 public:
  struct Options {
    bool restart = true;  // false: any death ends the run with exit code 1
    std::chrono::milliseconds first_pause = RestartPolicy::kFirstPause;
    // From SIGINT to SIGKILL when another process ended the run.
    std::chrono::milliseconds stop_deadline{20'000};
    std::function<void(const Death&)> on_restart;
    // How many processes the kernel killed for want of memory. Tests count themselves.
    std::function<std::uint64_t()> memory_kills = [] { return intra::memory_kills(); };
  };
  // A process that the kernel kills for want of memory so often is not started again: it would be
  // killed again.
  static constexpr int kMemoryKillsMax = 3;

  Supervisor(asio::any_io_executor executor, std::vector<Supervised> processes, Options options);
  ~Supervisor();  // only before or after run()

  // Starts all and completes when all have ended. Call once.
  asio::awaitable<SupervisionOutcome> run();
  // Forwards SIGINT to all and restarts nothing from here on; run() completes with 130 when all
  // have saved and ended.
  void interrupt();
  void kill();  // at once

  // Faults on purpose, to the processes chosen.
  using Chosen = std::function<bool(const Supervised&)>;
  void send_signal(const Chosen& chosen, int signal);
  // Killed, and not started again before restart(). If all others end well meanwhile, run()
  // completes with exit code 3.
  void hold_down(const Chosen& chosen);
  void restart(const Chosen& chosen);  // killed, if it runs, and started at once
  std::uint32_t restarts() const { return restarts_; }

 private:
  struct Child;
  asio::awaitable<void> keep_running(Child& child);
  bool was_for_memory(const Child& child, const ExitStatus& status);
  static std::string how_it_ended(const Child& child, const ExitStatus& status);
  void note_if_not_saved(const Child& child, const ExitStatus& status);
  asio::awaitable<bool> pause_before_restart(Child& child, const ExitStatus& status,
                                             const Ending& ending);
  void end_if_the_rest_is_down();
  void end_all(SupervisionOutcome outcome);
  void kill_stragglers();
  void signal_all(int signal);

  asio::any_io_executor executor_;
  Options options_;
  std::list<Child> children_;
  asio::steady_timer kill_timer_, all_ended_;
  std::optional<SupervisionOutcome> outcome_;  // set once the run is to end
  std::size_t running_ = 0;
  std::uint32_t restarts_ = 0;
  std::uint64_t memory_kills_ = 0;  // before, and of processes of ours
};

}  // namespace causeway::run
