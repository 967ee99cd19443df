// A causeway::Worker for Python: with arrays in place of spans, without the GIL while it waits, and
// with Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "intra/worker/worker.h"
#include "python/module/arrays.h"

namespace causeway::python {

// keep_waiting returned False, or the program ends; the state is saved.
class Stopped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A refusal, a damaged state, a divergence, a full disk: what std::system_error says.
class WorkerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PythonWorker {
 public:
  // `settings` without tensors and keep_waiting. `keep_waiting`: None, or called with a sentence.
  PythonWorker(const nanobind::mapping& tensors, WorkerSettings settings,
               nanobind::object keep_waiting);

  // To the arrays that the worker was made with.
  std::optional<Steps> next();
  bool called_back();
  // From those, or from others like them.
  void done(std::uint32_t count, double loss, const std::optional<nanobind::mapping>& tensors);
  void validated(double loss);

 private:
  bool keep_waiting(const std::string& what);
  template <typename Work>
  void without_gil(const Work& work);
  template <typename Work>
  std::exception_ptr failure_of(const Work& work);

  Arrays arrays_;
  nanobind::object keep_waiting_;
  nanobind::object program_end_;                  // causeway/program_end.py
  std::optional<nanobind::python_error> raised_;  // by keep_waiting or a signal
  std::atomic<bool> busy_ = false;
  std::optional<Worker> worker_;
};

}  // namespace causeway::python
