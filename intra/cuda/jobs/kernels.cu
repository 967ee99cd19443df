// A kernel for each of the two kinds of jobs; the logic is in job_*.h.
#include "intra/cuda/jobs/kernels.h"

#include <type_traits>

#include "compression/cuda/error.h"
#include "intra/cuda/jobs/element_kernel.cuh"
#include "intra/cuda/jobs/lane_groups.cuh"

namespace causeway::intra::cuda {
namespace {

constexpr unsigned kWarps = 4;  // rows of a block, of jobs whose groups are warps

template <typename J>
inline constexpr unsigned kGroups = J::kLanes == 32 ? kWarps : 1;  // of a block
template <typename J>
using GroupOf = std::conditional_t<J::kLanes == 32, WarpGroup, BlockGroup<J::kLanes>>;

template <typename J>
__global__ void __launch_bounds__(J::kLanes* kGroups<J>) run_rows(J job) {
  __shared__ typename J::Memory memory[kGroups<J>];
  __shared__ typename GroupOf<J>::Memory group_memory;
  const unsigned own = threadIdx.x / J::kLanes;
  const auto row = static_cast<std::int64_t>(blockIdx.x) * kGroups<J> + own;
  if (row >= job.rows) return;  // whole groups leave, and a warp waits for none but itself
  GroupOf<J> group(group_memory);
  job.row(group, memory[own], row);
}

template <typename J>
void launch_one(const J& job, cudaStream_t stream) {
  if constexpr (ElementJob<J>) {
    launch_elements(job, stream);
  } else {
    if (job.rows == 0) return;
    constexpr unsigned kThreads = J::kLanes * kGroups<J>;
    run_rows<<<blocks_of(job.rows, kGroups<J>), kThreads, 0, stream>>>(job);
  }
}

}  // namespace

void launch(const Job& job, cudaStream_t stream) {
  std::visit([stream](const auto& one) { launch_one(one, stream); }, job);
  compression::cuda::check(cudaGetLastError(), "launching a kernel of the training step");
}

}  // namespace causeway::intra::cuda
