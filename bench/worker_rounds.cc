// A trainer of its own that does next to nothing between rounds: what is left is the worker API.
//   bench_worker_rounds TENSORS ROWS COLUMNS      (started by `causeway simulate --worker`)
// Prints the peak of its memory. bench/module_overhead.py runs it beside the same in PyTorch.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "intra/base/resources.h"
#include "intra/worker/worker.h"

namespace {

void run(std::int64_t tensors, std::int64_t rows, std::int64_t columns) {
  const auto size = static_cast<std::size_t>(rows * columns);
  std::vector<std::vector<float>> values(static_cast<std::size_t>(tensors),
                                         std::vector<float>(size));
  std::vector<causeway::Tensor> specs;
  std::vector<causeway::ParameterView> views;
  for (std::size_t i = 0; i < values.size(); ++i) {
    specs.push_back({std::to_string(i), {rows, columns}});
    views.push_back({.data = values[i].data(), .shape = {rows, columns}});
  }
  causeway::Worker worker({.region = std::getenv("CAUSEWAY_REGION"),
                           .directory = std::getenv("CAUSEWAY_DIRECTORY"),
                           .tensors = specs,
                           .save_rounds = 1000},
                          views);
  while (const auto steps = worker.next(views)) {
    for (std::uint32_t step = 0; step < steps->count; ++step) {
      for (std::vector<float>& tensor : values) {
        for (float& value : tensor) value += 1e-3F;
      }
    }
    worker.done(views, steps->count, 0);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const bool started = std::getenv("CAUSEWAY_REGION") && std::getenv("CAUSEWAY_DIRECTORY");
  if (count != 4 || !started) {
    std::fprintf(
        stderr,
        "usage: causeway simulate CONFIG --worker 'bench_worker_rounds TENSORS ROWS COLUMNS'\n");
    return 2;
  }
  try {
    run(std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3]));
    std::printf("peak %.0f MB\n", static_cast<double>(causeway::intra::memory_peak_bytes()) / 1e6);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_worker_rounds: %s\n", error.what());
    return 1;
  }
}
