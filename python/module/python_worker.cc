#include "python/module/python_worker.h"

#include <nanobind/stl/string.h>

#include <string>
#include <system_error>
#include <utility>

#include "inter/base/text.h"

namespace nb = nanobind;

namespace causeway::python {

PythonWorker::PythonWorker(const nb::mapping& tensors, WorkerSettings settings,
                           nb::object keep_waiting)
    : arrays_(tensors, Arrays::Access::write),
      keep_waiting_(std::move(keep_waiting)),
      program_end_(nb::module_::import_("causeway.program_end").attr("program_end")) {
  settings.tensors = arrays_.tensors();
  settings.keep_waiting = [this](const std::string& what) { return this->keep_waiting(what); };
  without_gil([&] { worker_.emplace(std::move(settings), arrays_.views()); });
}

std::optional<Steps> PythonWorker::next() {
  std::optional<Steps> steps;
  without_gil([&] { steps = worker_->next(arrays_.views()); });
  return steps;
}

bool PythonWorker::called_back() {
  bool called = false;
  without_gil([&] { called = worker_->called_back(); });
  return called;
}

void PythonWorker::done(std::uint32_t count, double loss,
                        const std::optional<nb::mapping>& tensors) {
  std::optional<Arrays> others;
  if (tensors) {
    others.emplace(*tensors, Arrays::Access::read);
    others->arrange_like(arrays_.tensors());
  }
  without_gil([&] { worker_->done((others ? *others : arrays_).views(), count, loss); });
}

void PythonWorker::validated(double loss) {
  without_gil([&] { worker_->validated(loss); });
}

// Called without the GIL, in the middle of a wait. What is raised here comes out of the call that
// waits, once the worker has saved its state.
bool PythonWorker::keep_waiting(const std::string& what) {
  const nb::gil_scoped_acquire gil;
  try {
    if (nb::cast<bool>(program_end_.attr("came"))) return false;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (keep_waiting_.is_none()) return true;
    const int truth = PyObject_IsTrue(keep_waiting_(inter::printable(what)).ptr());
    if (truth < 0) throw nb::python_error();
    return truth == 1;
  } catch (nb::python_error& error) {
    raised_.emplace(std::move(error));
    return false;
  }
}

template <typename Work>
void PythonWorker::without_gil(const Work& work) {
  if (busy_.exchange(true))
    throw WorkerError("another thread is in a call of this worker: one thread at a time");
  const std::exception_ptr failure = failure_of(work);
  busy_ = false;
  if (!failure) return;
  if (raised_) throw *std::exchange(raised_, std::nullopt);
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    const std::string text = inter::printable(error.what());  // others' words may be in it
    if (error.code() == std::errc::operation_canceled) throw Stopped(text);
    throw WorkerError(text);
  }
}

// Also what Python raises before the work, as the program ends already, or after it.
template <typename Work>
std::exception_ptr PythonWorker::failure_of(const Work& work) {
  try {
    program_end_.attr("enter")();
    std::exception_ptr failure;
    {
      const nb::gil_scoped_release released;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    program_end_.attr("leave")();
    return failure;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace causeway::python
