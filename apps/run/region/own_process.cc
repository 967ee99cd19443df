#include "apps/run/region/own_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "apps/run/region/stop_wishes.h"
#include "intra/base/mapped_file.h"
#include "intra/base/usable_cores.h"

namespace causeway::run {
namespace {

std::atomic<bool> stop = false;
std::atomic<pid_t> launcher = 0;  // none, or none that this process can see

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : stop_signals()) sigaddset(&set, signal);
  return set;
}

void write_error(const char* text) {
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

// Calls only what a signal handler may.
void on_bus_error(int, siginfo_t* what, void*) {
  const bool is_fault = what->si_code > 0;  // not sent by somebody
  const intra::MappedAt file = is_fault ? intra::mapped_at(what->si_addr) : intra::MappedAt{};
  if (file.path == nullptr) {
    std::signal(SIGBUS, SIG_DFL);
    if (!is_fault) ::kill(::getpid(), SIGBUS);
    return;  // a fault comes again
  }
  struct stat now {};
  const bool is_short = ::stat(file.path, &now) == 0 && std::uint64_t(now.st_size) < file.bytes;
  write_error("causeway: ");
  write_error(file.path);
  write_error(is_short ? " was cut short while it was read. "
                       : " cannot be read any more: its disk or its server fails, or another host "
                         "removed it. ");
  write_error(is_short ? intra::kHowToReplaceData : "Look at the kernel's log (dmesg)");
  write_error("\n");
  _exit(is_short ? EX_TEMPFAIL : EXIT_FAILURE);
}

}  // namespace

std::vector<int> stop_signals() {
  struct sigaction of_hangup {};
  ::sigaction(SIGHUP, nullptr, &of_hangup);
  if (of_hangup.sa_handler == SIG_IGN) return {SIGINT, SIGTERM};
  return {SIGINT, SIGTERM, SIGHUP};
}

void watch_stop_signals() {
  const sigset_t watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  // Detached: nothing ends sigwait but a signal, and it touches nothing that the end destroys.
  std::thread([watched] {
    StopWishes wishes;
    for (std::optional<StopWishes::Wish> wish; wish != StopWishes::Wish::end_at_once;) {
      int signal = 0;
      sigwait(&watched, &signal);
      stop = true;
      wish = wishes.heed(signal, std::chrono::steady_clock::now());
    }
    _exit(130);
  }).detach();
}

void stop_with_parent() {
  launcher = ::getppid();
}

// Not by PR_SET_PDEATHSIG, which a thread of the parent's that ends would set off.
bool stop_requested() {
  const pid_t parent = launcher;
  const bool is_orphan = parent != 0 && ::getppid() != parent;
  if (is_orphan && !stop.exchange(true))
    spdlog::warn("its launcher (process {}) is gone: this worker saves its state and ends", parent);
  return stop;
}

void restore_signals() {
  const sigset_t watched = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &watched, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
}

void end_at_stop_signals_as_first_process() {
  if (::getpid() != 1) return;
  for (const int signal : stop_signals()) std::signal(signal, [](int) { _exit(130); });
}

void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
}

void explain_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

// Allocates nothing.
void end_without_memory() {
  write_error("causeway: the system gives this process no more memory");
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    write_error(": ulimit -v allows too little. Raise that");
  else
    write_error(". End what else needs memory here, or raise the limit of its control group");
  write_error("; what is on disk is whole, so start the same command again\n");
  _exit(EXIT_FAILURE);
}

void explain_missing_memory() {
  std::set_new_handler(end_without_memory);
}

std::string stack_problem(rlim_t bytes) {
  constexpr rlim_t kNeeded = 128U << 10U;  // with 64 kB a coordinator and a worker crashed
  if (bytes >= kNeeded) return {};
  return fmt::format(
      "the stack may have {} kB here, and at least {} kB are needed: raise ulimit -s to 8192",
      bytes >> 10U, kNeeded >> 10U);
}

rlim_t stack_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free. Programs that this one starts have it, too.
    (void)!::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

void keep_own_access() {
  ::umask(::umask(0) & 077);
}

void prepare_openmp(char** arguments) {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  const bool has_policy = is_set("OMP_WAIT_POLICY") || is_set("GOMP_SPINCOUNT");
  const intra::UsableCores cores = intra::usable_cores();
  const bool has_threads = is_set("OMP_NUM_THREADS") || cores.quota == 0;
  if (has_policy && has_threads) return;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return;
  if (!has_policy && ::setenv("OMP_WAIT_POLICY", "passive", 0) != 0) return;
  if (!has_threads && ::setenv("OMP_NUM_THREADS", std::to_string(cores.count).c_str(), 0) != 0)
    return;
  ::execv(program.c_str(), arguments);
}

}  // namespace causeway::run
