// causeway._causeway: what python/causeway/__init__.py shows. Its docstrings are in _causeway.pyi's
// place for readers, and here for help().
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "compression/base/parallel.h"
#include "inter/base/printable_text.h"
#include "intra/base/usable_cores.h"
#include "python/module/python_worker.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace causeway::python {
namespace {

constexpr const char* kWorkerText =
    R"(Speaks for one region of a run. Attaches to the region's coordinator, or waits until it can.

tensors: names to arrays of fp32, writable, in the host's memory, with any strides: anything with
    the buffer protocol or DLPack (NumPy, PyTorch on CPUs). Names and shapes are the same in every region.
    Their values are the parameters that a new run begins with, the same in every region; they are
    not used if the region has a state on disk or joins a run that is under way. The arrays are
    kept: next() writes to them.
region: the region's name in the configuration.
directory: the region's own; on the coordinator's host the one that the coordinator uses.
coordinator, certificates: HOST:PORT of a coordinator on another host, and a directory with ca.crt,
    REGION.crt and REGION.key. Empty: the coordinator is on this host.
samples_per_step, tokens_per_step: what one inner step of the whole region reads; tokens weigh it. 0 tokens: a sample is one.
save_rounds: rounds between states on disk.
validates: the program evaluates the arrays where Steps.validation_samples asks for it.
keep_waiting: called at least every second while the worker waits, with a sentence that says for
    what. If it returns False, the wait ends with causeway.Stopped, the state saved. What it raises,
    and KeyboardInterrupt, end the wait likewise.

Raises ValueError for arrays that cannot be used, causeway.WorkerError for what the run refuses.
One thread at a time. The GIL is released in every wait.)";

void bind_steps(nb::module_& module) {
  nb::class_<Steps>(module, "Steps", "Inner steps to take.")
      .def_ro("round", &Steps::round, "The round that the steps belong to.")
      .def_ro("count", &Steps::count, "How many steps to take, at most.")
      .def_ro("first_sample", &Steps::first_sample, "The region's sample number of the first step.")
      .def_ro(
          "schedule_step", &Steps::schedule_step,
          "Position of the first step in the schedule (of learning rates) that all regions share.")
      .def_ro("part", &Steps::part, "Which of `parts` equal parts of the data this region reads.")
      .def_ro("parts", &Steps::parts, "Into how many parts the data is divided.")
      .def_ro("pass_number", &Steps::pass, "How often the data was read before.")
      .def_ro("pass_begin", &Steps::pass_begin, "The region's first sample number of this pass.")
      .def_ro("validation_samples", &Steps::validation_samples,
              "Not 0: there are no steps to take now. Evaluate the arrays on this many samples, "
              "which nobody trains on and which are the same each time, and call validated().")
      .def_ro("run_steps", &Steps::run_steps,
              "Steps of the whole run, as schedule_step counts them: where a schedule ends.");
}

void bind_worker(nb::module_& module) {
  nb::class_<PythonWorker>(module, "Worker", kWorkerText)
      .def(
          "__init__",
          [](PythonWorker* self, const nb::mapping& tensors, const std::string& region,
             const std::filesystem::path& directory, const std::string& coordinator,
             const std::string& certificates, std::uint64_t samples, std::uint64_t tokens,
             std::uint32_t save_rounds, bool validates, nb::object keep_waiting) {
            if (samples == 0 || save_rounds == 0)
              throw nb::value_error("samples_per_step and save_rounds are 1 or more");
            new (self) PythonWorker(tensors,
                                    {.region = region,
                                     .directory = directory,
                                     .coordinator = coordinator,
                                     .certificates = certificates,
                                     .tensors = {},
                                     .samples_per_step = samples,
                                     .tokens_per_step = tokens,
                                     .save_rounds = save_rounds,
                                     .validates = validates},
                                    std::move(keep_waiting));
          },
          "tensors"_a, nb::kw_only(), "region"_a, "directory"_a, "coordinator"_a = "",
          "certificates"_a = "", "samples_per_step"_a = 1, "tokens_per_step"_a = 0,
          "save_rounds"_a = 10, "validates"_a = false, "keep_waiting"_a = nb::none())
      .def("next", &PythonWorker::next,
           "Waits until there are steps to take, and writes the parameters to start from to the "
           "arrays. None: the run is over, and the arrays hold its result.")
      .def("called_back", &PythonWorker::called_back,
           "Whether to stop early: the region was cut off from the others, trained on by itself, "
           "and can reach them again. Cheap; call it between steps.")
      .def("done", &PythonWorker::done, "count"_a, "loss"_a, "tensors"_a = nb::none(),
           "Says that `count` steps were taken. The arrays hold the result, or `tensors` do: other "
           "arrays of the same names and shapes in any order, which may be read-only (JAX). "
           "`loss`: of the last step, for displays. If parameters are not finite, the region sits "
           "the round out.")
      .def("validated", &PythonWorker::validated, "loss"_a,
           "Gives the mean loss that Steps.validation_samples asked for, in the units of done()'s "
           "loss. A run with sync.k = \"auto\" judges its choice of K by it.");
}

}  // namespace
}  // namespace causeway::python

NB_MODULE(_causeway, module) {
  using namespace causeway::python;
  nb::set_leak_warnings(false);  // a program may end while it has a worker
  // Standard output is the program's.
  spdlog::set_default_logger(spdlog::stderr_color_mt("causeway"));
  spdlog::set_formatter(
      causeway::inter::printable_pattern("[%Y-%m-%d %H:%M:%S.%e] [causeway] [%l] %*"));
  causeway::compression::use_threads(causeway::intra::usable_cores().count);
  bind_steps(module);
  bind_worker(module);
  nb::exception<WorkerError> error(module, "WorkerError", PyExc_RuntimeError);
  nb::exception<Stopped> stopped(module, "Stopped", PyExc_RuntimeError);
  module.attr("__version__") = CAUSEWAY_VERSION;
}
