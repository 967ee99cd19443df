#include "compression/cuda/kernels.h"

#include "compression/cuda/block_group.cuh"
#include "compression/cuda/error.h"

namespace causeway::compression::cuda {
namespace {

template <typename J>
__global__ void __launch_bounds__(J::kLanes) run_chunks(J job) {
  __shared__ typename J::Memory memory;
  __shared__ typename BlockGroup<J::kLanes>::Memory group_memory;
  BlockGroup<J::kLanes> group(group_memory);
  job.row(group, memory, blockIdx.x);
}

template <typename J>
void launch_chunks(const J& job, cudaStream_t stream) {
  if (job.rows == 0) return;  // a grid of no blocks is an error
  run_chunks<<<static_cast<unsigned>(job.rows), J::kLanes, 0, stream>>>(job);
  check(cudaGetLastError(), "encoding or decoding on the GPU");
}

}  // namespace

void launch(const EncodeTopK& job, cudaStream_t stream) {
  launch_chunks(job, stream);
}

void launch(const EncodeInt8& job, cudaStream_t stream) {
  launch_chunks(job, stream);
}

void launch(const DecodeTopK& job, cudaStream_t stream) {
  launch_chunks(job, stream);
}

void launch(const DecodeInt8& job, cudaStream_t stream) {
  launch_chunks(job, stream);
}

}  // namespace causeway::compression::cuda
