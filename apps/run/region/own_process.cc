#include "apps/run/region/own_process.h"

#include <sysexits.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "intra/base/mapped_file.h"

namespace causeway::run {
namespace {

std::atomic<bool> stop = false;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void write_error(const char* text) {
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

// Calls only what a signal handler may.
void on_bus_error(int, siginfo_t* what, void*) {
  const bool is_fault = what->si_code > 0;  // not sent by somebody
  const char* const file = is_fault ? intra::mapped_file_at(what->si_addr) : nullptr;
  if (file == nullptr) {
    std::signal(SIGBUS, SIG_DFL);
    if (!is_fault) ::kill(::getpid(), SIGBUS);
    return;  // a fault comes again
  }
  for (const char* text :
       {"causeway: ", file, " was cut short while it was read, or its disk cannot be read. ",
        intra::kHowToReplaceData, "\n"})
    write_error(text);
  _exit(EX_TEMPFAIL);
}

}  // namespace

void watch_stop_signals() {
  const sigset_t watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  // Detached: nothing ends sigwait but a signal, and it touches nothing that the end destroys.
  std::thread([watched] {
    int signal = 0;
    sigwait(&watched, &signal);
    stop = true;
    sigwait(&watched, &signal);
    _exit(130);
  }).detach();
}

bool stop_requested() {
  return stop;
}

void unblock_stop_signals() {
  const sigset_t watched = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &watched, nullptr);
}

void name_files_cut_short() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void wait_passively(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure || ::setenv("OMP_WAIT_POLICY", "passive", 0) != 0) return;
  ::execv(program.c_str(), arguments);
}

}  // namespace causeway::run
