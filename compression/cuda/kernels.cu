#include "compression/cuda/kernels.h"

#include <cstdint>
#include <nv/target>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "compression/cuda/error.h"

namespace causeway::compression::cuda {

// A thread block as a group of lanes (chunk_feedback.h). The members count as host code too, for
// the constexpr functions that call them do; they run on the device only.
template <unsigned kLaneCount>
class BlockGroup {
 public:
  static constexpr unsigned kLanes = kLaneCount;

  // Shared memory. Every operation leaves it free for the next.
  struct Memory {
    union {
      typename cub::BlockReduce<std::uint32_t, kLanes>::TempStorage reduce_32;
      typename cub::BlockReduce<std::uint64_t, kLanes>::TempStorage reduce_64;
      typename cub::BlockScan<std::uint32_t, kLanes>::TempStorage scan;
    };
    std::uint64_t result;
  };

  template <typename T>
  class PerLane {
   public:
    constexpr T& of(unsigned) { return value_; }
    constexpr const T& of(unsigned) const { return value_; }

   private:
    T value_{};
  };

  explicit __device__ BlockGroup(Memory& memory) : memory_(memory) {}

  template <typename F>
  __host__ __device__ void each(const F& f) {
    NV_IF_TARGET(NV_IS_DEVICE, (f(threadIdx.x); __syncthreads();))
  }
  template <typename F>
  __host__ __device__ bool any(const F& f) {
    NV_IF_TARGET(NV_IS_DEVICE, (return __syncthreads_or(f(threadIdx.x)) != 0;))
    return false;
  }
  template <typename F>
  __host__ __device__ std::uint32_t count(const F& f) {
    NV_IF_TARGET(NV_IS_DEVICE, (return __syncthreads_count(f(threadIdx.x));))
    return 0;
  }
  template <typename F>
  __host__ __device__ auto sum(const F& f) -> decltype(f(0U)) {
    NV_IF_TARGET(NV_IS_DEVICE, (return reduce(f(threadIdx.x), ::cuda::std::plus<>{});))
    return 0;
  }
  template <typename F>
  __host__ __device__ std::uint32_t max(const F& f) {
    NV_IF_TARGET(NV_IS_DEVICE, (return reduce(f(threadIdx.x), ::cuda::maximum<>{});))
    return 0;
  }
  template <typename F>
  __host__ __device__ PerLane<std::uint32_t> exclusive_sum(const F& f) {
    PerLane<std::uint32_t> sums;
    NV_IF_TARGET(NV_IS_DEVICE, (cub::BlockScan<std::uint32_t, kLanes>(memory_.scan)
                                    .ExclusiveSum(f(threadIdx.x), sums.of(threadIdx.x));
                                __syncthreads();))
    return sums;
  }
  template <typename F>
  __host__ __device__ void ballots(std::uint32_t* words, unsigned rows, const F& f) {
    NV_IF_TARGET(NV_IS_DEVICE, (for (unsigned row = 0; row < rows; ++row) {
                   const std::uint32_t word = __ballot_sync(~0U, f(threadIdx.x, row));
                   if (threadIdx.x % 32 == 0) words[threadIdx.x / 32 * rows + row] = word;
                 } __syncthreads();))
  }
  static __host__ __device__ void set_bits(std::uint32_t& word, std::uint32_t mask) {
    NV_IF_TARGET(NV_IS_DEVICE, (atomicOr(&word, mask);))
  }

 private:
  static __device__ auto& storage(Memory& memory, std::uint32_t) { return memory.reduce_32; }
  static __device__ auto& storage(Memory& memory, std::uint64_t) { return memory.reduce_64; }

  // CUB gives the result to thread 0 only.
  template <typename T, typename Combine>
  __device__ T reduce(T own, const Combine& combine) {
    const T all = cub::BlockReduce<T, kLanes>(storage(memory_, own)).Reduce(own, combine);
    if (threadIdx.x == 0) memory_.result = all;
    __syncthreads();
    const T result = static_cast<T>(memory_.result);
    __syncthreads();
    return result;
  }

  Memory& memory_;
};

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
