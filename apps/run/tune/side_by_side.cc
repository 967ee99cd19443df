#include "apps/run/tune/side_by_side.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "intra/base/host_memory.h"
#include "intra/step/memory_need.h"

namespace causeway::run {

namespace {

// Of all its regions, as one trial holds them.
std::uint64_t trial_bytes(const Config& config) {
  std::uint64_t bytes = intra::kProgramBytes;
  for (const RegionConfig& region : config.regions)
    bytes += intra::held_bytes(intra::memory_need(worker_options(config, region.name, 0, ".")));
  return bytes;
}

}  // namespace

std::size_t trials_side_by_side(const Config& config) {
  const auto on_gpu = [](const RegionConfig& region) {
    return region.device != intra::Device::cpu;
  };
  if (std::ranges::any_of(config.regions, on_gpu)) return 1;
  const std::uint64_t room = intra::host_memory().available_bytes;
  const std::uint64_t fit = std::max<std::uint64_t>(1, room / trial_bytes(config));
  return std::min<std::uint64_t>(fit, static_cast<std::uint64_t>(omp_get_max_threads()));
}

void run_side_by_side(std::size_t at_once, const std::vector<std::function<void()>>& tasks) {
  const int threads = std::max(1, omp_get_max_threads() / static_cast<int>(at_once));
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < std::min(at_once, tasks.size()); ++i) {
      workers.emplace_back([&] {
        omp_set_num_threads(threads);
        for (std::size_t task = next++; task < tasks.size(); task = next++) {
          try {
            tasks[task]();
          } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
            next = tasks.size();
          }
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace causeway::run
