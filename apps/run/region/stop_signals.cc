#include "apps/run/region/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
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

}  // namespace causeway::run
