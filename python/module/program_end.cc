#include "python/module/program_end.h"

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "python/module/python_worker.h"

namespace nb = nanobind;
using namespace std::chrono_literals;

namespace causeway::python {
namespace {

constexpr auto kLimit = 60s;  // for what is to be saved
constexpr auto kLookEvery = 10ms;

std::atomic<int> inside = 0;
std::atomic<bool> ends = false;

// On the main thread, which is in no call any more.
void end_calls() {
  ends = true;
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (inside > 0 && std::chrono::steady_clock::now() < limit) {
    {
      const nb::gil_scoped_release released;
      std::this_thread::sleep_for(kLookEvery);
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

}  // namespace

InCall::InCall() {
  ++inside;
  if (!ends) return;
  --inside;
  throw Stopped("the program ends, and this thread, which is not the main one, with it");
}

InCall::~InCall() {
  --inside;
}

bool program_ends() {
  return ends;
}

void watch_program_end() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(end_calls));
  ::pthread_atfork(nullptr, nullptr, [] { inside = 0; });  // the other threads are not in the child
}

}  // namespace causeway::python
