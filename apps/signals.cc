#include "apps/signals.h"

#include <unistd.h>
#include <csignal>

namespace causeway::apps {
namespace {

volatile std::sig_atomic_t stop = 0;

extern "C" void on_signal(int) {
  if (stop) _exit(130);
  stop = 1;
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() {
  return stop != 0;
}

}  // namespace causeway::apps
