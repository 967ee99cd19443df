#include "python/module/program_end.h"

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "python/module/python_worker.h"

namespace nb = nanobind;
using namespace std::chrono_literals;

namespace causeway::python {
namespace {

constexpr auto kLimit = 60s;      // for what is to be saved
constexpr auto kSignals = 100ms;  // Ctrl-C is noticed within it

std::atomic<bool> ends = false;
std::mutex mutex;  // the GIL is taken before it, never while it is held
std::condition_variable left;
int inside = 0;

// On the main thread, which is in no call any more.
void end_calls() {
  ends = true;
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  for (bool over = false; !over;) {
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(mutex);
      over = left.wait_for(lock, kSignals, [] { return inside <= 0; }) ||
             std::chrono::steady_clock::now() > limit;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

}  // namespace

InCall::InCall() {
  const std::lock_guard lock(mutex);
  if (ends) throw Stopped("the program ends, and its threads with it");
  ++inside;
}

InCall::~InCall() {
  const std::lock_guard lock(mutex);
  --inside;
  left.notify_one();
}

bool program_ends() {
  return ends;
}

void watch_program_end() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(end_calls));
  const auto unlock_in_child = [] {
    inside = 0;  // the other threads are not there, and this one may be in a call
    mutex.unlock();
  };
  ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, unlock_in_child);
}

}  // namespace causeway::python
