#include "apps/run/region/own_process.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

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

void wait_passively(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure || ::setenv("OMP_WAIT_POLICY", "passive", 0) != 0) return;
  ::execv(program.c_str(), arguments);
}

}  // namespace causeway::run
