// The kernel of jobs whose elements are each on their own (jobs.h). In an anonymous namespace: what
// is compiled with fused multiply-adds, and what without, must not be taken for the same.
#pragma once

#include <cstdint>

namespace causeway::intra::cuda {
namespace {

constexpr unsigned kElementThreads = 256;

template <typename J>
__global__ void __launch_bounds__(kElementThreads) run_elements(J job) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i < job.count()) job.element(i);
}

unsigned blocks_of(std::int64_t count, unsigned of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

template <typename J>
void launch_elements(const J& job, cudaStream_t stream) {
  if (job.count() == 0) return;
  run_elements<<<blocks_of(job.count(), kElementThreads), kElementThreads, 0, stream>>>(job);
}

}  // namespace
}  // namespace causeway::intra::cuda
