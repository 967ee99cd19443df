// Faults of the kind that a GPU forgives or blames on something else: the doubles find them.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <latch>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "intra/base/error.h"
#include "intra/cuda/device/collective_nccl.h"
#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/device/device.h"
#include "intra/cuda/device/nccl.h"
#include "tests/gpu_double/cudart.h"
#include "tests/intra/collective/on_ranks.h"

namespace causeway::gpu_double {
namespace {

using intra::cuda::CudaBackend;
using intra::cuda::DeviceArray;
using intra::cuda::Event;
using intra::cuda::Pack;
using intra::cuda::PinnedArray;
using intra::cuda::Stream;

// As many as the conformance suite of collectives has ranks.
[[maybe_unused]] const int kGpusAreThree = setenv("CAUSEWAY_DOUBLE_GPUS", "3", 1);

TEST(Doubles, WhoForgetsToWaitFindsOldValues) {
  const PinnedArray<int> there(4), back(4);
  const DeviceArray<int> on_device(4);
  for (int& value : there.span()) value = 7;
  for (int& value : back.span()) value = 0;
  const Stream stream;
  intra::cuda::copy<int>(there.span(), on_device.span(), stream);
  intra::cuda::copy<int>(on_device.span(), back.span(), stream);
  EXPECT_EQ(back.span()[0], 0);
  stream.synchronize();
  EXPECT_EQ(back.span()[0], 7);
}

TEST(Doubles, WhoForgetsThatAStreamWaitsForAnotherFindsOldValues) {
  const PinnedArray<int> there(4), back(4);
  const DeviceArray<int> on_device(4);
  for (int& value : there.span()) value = 7;
  const Stream first, second;
  const Event done;
  intra::cuda::copy<int>(there.span(), on_device.span(), first);
  first.record(done);
  intra::cuda::copy<int>(on_device.span(), back.span(), second);
  second.synchronize();
  EXPECT_EQ(back.span()[0], 0);
  second.wait_for(done);
  intra::cuda::copy<int>(on_device.span(), back.span(), second);
  second.synchronize();
  EXPECT_EQ(back.span()[0], 7);
}

TEST(Doubles, PinnedMemoryThatChangesTooSoonIsCopiedChanged) {
  const PinnedArray<int> there(1), back(1);
  const DeviceArray<int> on_device(1);
  const Stream stream;
  there.span()[0] = 1;
  intra::cuda::copy<int>(there.span(), on_device.span(), stream);
  there.span()[0] = 2;
  intra::cuda::copy<int>(on_device.span(), back.span(), stream);
  stream.synchronize();
  EXPECT_EQ(back.span()[0], 2);
}

TEST(Doubles, MemoryIsFullOfNanAtFirst) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, sizeof(float)), cudaSuccess);
  float value = 0;
  const Stream stream;
  intra::cuda::copy_bytes(memory, &value, sizeof value, stream);
  EXPECT_NE(value, value);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

using DoublesDeathTest = testing::Test;

TEST(DoublesDeathTest, AHostThatTouchesDeviceMemoryCrashes) {
  const DeviceArray<int> on_device(4);
  EXPECT_DEATH(on_device.span()[0] = 1, "");
}

TEST(DoublesDeathTest, WorkBeyondItsMemoryCrashes) {
  const DeviceArray<int> on_device(64);
  const Stream stream;
  int* const begin = on_device.span().data();
  EXPECT_DEATH(
      {
        enqueue(stream.get(), [begin] { begin[64] = 1; });
        stream.synchronize();
      },
      "");
  EXPECT_DEATH(
      {
        enqueue(stream.get(), [begin] { begin[-1] = 1; });
        stream.synchronize();
        cudaFree(begin);
      },
      "wrote beside its memory");
}

TEST(DoublesDeathTest, AStalePointerInAReplayedGraphCrashes) {
  CudaBackend backend(0, {.graphs = true, .fused_attention = false});
  std::byte* const memory = backend.allocate(256);
  auto* const pack = reinterpret_cast<Pack<float>*>(memory);
  std::byte* const other = backend.allocate(256);
  const auto work = [&] {
    backend.run(intra::cuda::OuterJob{
        intra::cuda::CopyPacks{1, pack, reinterpret_cast<Pack<float>*>(other)}});
  };
  for (int time = 0; time < 3; ++time) backend.repeat(1, work);
  backend.point()->wait();
  backend.release(memory);
  EXPECT_DEATH(
      {
        backend.repeat(1, work);
        backend.point()->wait();
      },
      "");
}

TEST(Doubles, ARecordingThatAnotherThreadEndsIsDonePlainlyAndMadeTheNextTime) {
  CudaBackend backend(0, {.graphs = true, .fused_attention = false});
  std::byte* const from = backend.allocate(256);
  std::byte* const to = backend.allocate(256);
  const Pack<float> kOnes{{1, 1, 1, 1}};
  backend.upload(&kOnes, from, sizeof kOnes);
  bool another_frees = false;
  int times = 0;
  const auto copy = [&] {
    backend.run(intra::cuda::OuterJob{intra::cuda::CopyPacks{
        1, reinterpret_cast<Pack<float>*>(from), reinterpret_cast<Pack<float>*>(to)}});
  };
  const auto work = [&] {
    ++times;
    copy();
    if (!another_frees) return;
    std::thread([] {
      void* memory = nullptr;
      EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
      cudaFree(memory);
    }).join();
    copy();  // which is refused while it is recorded
  };
  const auto repeat = [&] {
    Pack<float> copied{};
    backend.clear(to, 256);
    backend.repeat(1, work);
    backend.download(to, &copied, sizeof copied);
    EXPECT_EQ(std::memcmp(&copied, &kOnes, sizeof copied), 0);
  };
  repeat();
  EXPECT_EQ(times, 1);
  another_frees = true;
  repeat();
  EXPECT_EQ(times, 3) << "recorded in vain, and done";
  another_frees = false;
  repeat();
  EXPECT_EQ(times, 4);
  repeat();
  EXPECT_EQ(times, 4) << "it was recorded";
}

TEST(DoublesDeathTest, WhatIsFreedTwiceIsRefused) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_DEATH(cudaFree(memory), "freed already");
}

TEST(Doubles, RecordingRefusesToAllocateToWaitAndToMeetOtherStreams) {
  const Stream stream, other;
  const Event event;
  const auto spoilt_by = [&](const std::function<cudaError_t()>& call) {
    EXPECT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_NE(call(), cudaSuccess);
    cudaGraph_t graph = nullptr;
    return cudaStreamEndCapture(stream.get(), &graph) != cudaSuccess && graph == nullptr;
  };
  void* memory = nullptr;
  EXPECT_TRUE(spoilt_by([&] { return cudaMalloc(&memory, 16); }));
  EXPECT_TRUE(spoilt_by([&] { return cudaStreamSynchronize(stream.get()); }));
  EXPECT_TRUE(spoilt_by([&] { return cudaDeviceSynchronize(); }));
  EXPECT_TRUE(spoilt_by([&] {
    other.record(event);
    return cudaStreamWaitEvent(stream.get(), event.get(), 0);
  }));
  EXPECT_TRUE(spoilt_by([&] {
    const int pageable = 1;
    return cudaMemcpyAsync(memory, &pageable, sizeof pageable, cudaMemcpyDefault, stream.get());
  }));
}

TEST(Doubles, AStreamOfAnotherGpuIsRefused) {
  const Stream stream;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const Event event;
  EXPECT_EQ(cudaEventRecord(event.get(), stream.get()), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

// That one's work may wait for what this thread does next.
TEST(Doubles, FreeingWaitsForNoOtherGpu) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const Stream stream;
  int asked = 0;
  ASSERT_TRUE(gpu_double::enqueue_until_done(stream.get(), [&asked] { return ++asked > 2; }));
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  { const DeviceArray<float> freed(1); }
  EXPECT_EQ(asked, 0);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(asked, 3);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

// Products whose c has `stride`: whether the backend throws.
bool is_refused(std::int64_t stride, std::size_t shift_bytes = 0, std::int64_t count = 1,
                intra::cuda::Product::Epilogue epilogue = {}) {
  CudaBackend backend(0, {.graphs = false, .fused_attention = false});
  intra::cuda::Product product;
  product.m = product.n = product.k = 16;
  product.count = count;
  product.epilogue = epilogue;
  product.bias = backend.allocate(4096);
  product.a = {backend.allocate(4096), 16, false};
  product.b = {backend.allocate(4096), 16, false};
  product.c = backend.allocate(4096) + shift_bytes;
  product.c_stride = stride;
  try {
    backend.multiply(product);
    backend.point()->wait();
    return false;
  } catch (const std::system_error&) {
    return true;
  }
}

TEST(Doubles, AWrongStrideOrAlignmentOfAProductIsRefused) {
  EXPECT_FALSE(is_refused(16));
  EXPECT_FALSE(is_refused(24));
  EXPECT_TRUE(is_refused(8));   // shorter than a row
  EXPECT_TRUE(is_refused(17));  // not aligned
  EXPECT_TRUE(is_refused(16, 4));
}

TEST(Doubles, SeveralProductsHaveNoEpilogue) {
  EXPECT_FALSE(is_refused(16, 0, 3));
  EXPECT_FALSE(is_refused(16, 0, 1, intra::cuda::Product::Epilogue::bias));
  EXPECT_TRUE(is_refused(16, 0, 3, intra::cuda::Product::Epilogue::bias));
}

// cuBLASLt's functions as the program finds them, and an algorithm for products of 16 x 16
// matrices.
class CublasLtDouble : public testing::Test {
 protected:
  CublasLtDouble() {
    library_.find("cublasLtMatmulDescCreate", create_description_);
    library_.find("cublasLtMatrixLayoutCreate", create_layout_);
    library_.find("cublasLtMatmulPreferenceCreate", create_preference_);
    library_.find("cublasLtMatmulPreferenceSetAttribute", prefer_);
    library_.find("cublasLtMatmulAlgoGetHeuristic", choose_);
    library_.find("cublasLtMatmul", multiply_);
  }
  void SetUp() override {
    ASSERT_EQ(create_description_(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulPreference_t preference = nullptr;
    ASSERT_EQ(create_preference_(&preference), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(prefer_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kMost, sizeof kMost),
              CUBLAS_STATUS_SUCCESS);
    const cublasLtMatrixLayout_t matrix = layout(16);
    int found = 0;
    ASSERT_EQ(choose_(nullptr, description_, matrix, matrix, matrix, matrix, preference, 1,
                      &chosen_, &found),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(found, 1);
  }
  cublasLtMatrixLayout_t layout(std::uint64_t size) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(create_layout_(&made, CUDA_R_32F, size, size, static_cast<std::int64_t>(size)),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }
  // Of size x size matrices, by the algorithm that was chosen.
  cublasStatus_t multiply(std::uint64_t size, std::size_t workspace_bytes) {
    const float one = 1, zero = 0;
    float* const values = matrix_.span().data();
    const cublasLtMatrixLayout_t of = layout(size);
    return multiply_(nullptr, description_, &one, values, of, values, of, &zero, values, of, values,
                     of, &chosen_.algo, workspace_.span().data(), workspace_bytes, stream_.get());
  }

  static constexpr std::size_t kMost = std::size_t{4} << 20;
  const intra::cuda::SharedLibrary library_{"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
  decltype(cublasLtMatmulDescCreate)* create_description_ = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* create_layout_ = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* create_preference_ = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* prefer_ = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* choose_ = nullptr;
  decltype(cublasLtMatmul)* multiply_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
  const DeviceArray<float> matrix_{32 * 32};
  const DeviceArray<std::byte> workspace_{kMost};
  const Stream stream_;
};

TEST_F(CublasLtDouble, AnAlgorithmOfAnotherProductIsRefused) {
  EXPECT_EQ(multiply(16, kMost), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(multiply(32, kMost), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtDouble, AWorkspaceThatIsTooSmallIsRefused) {
  EXPECT_EQ(multiply(16, chosen_.workspaceSize), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(multiply(16, chosen_.workspaceSize - 1), CUBLAS_STATUS_SUCCESS);
}

// A group of one, and how it is told to go on.
class NcclDouble : public testing::Test {
 protected:
  void begin() {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ncclUniqueId id{};
    ASSERT_EQ(nccl_.get_unique_id(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(nccl_.init(&group_, 1, id, 0, &config), ncclInProgress);
  }
  bool is_in_progress() {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(nccl_.async_error(group_, &state), ncclSuccess);
    EXPECT_TRUE(state == ncclSuccess || state == ncclInProgress);
    return state == ncclInProgress;
  }
  void form() {
    begin();
    while (is_in_progress()) {
    }
  }
  ncclResult_t sum() {
    return nccl_.all_reduce(from_.span().data(), to_.span().data(), 1, ncclFloat, ncclSum, group_,
                            stream_.get());
  }
  void leave() {
    ASSERT_EQ(nccl_.finalize(group_), ncclInProgress);
    while (is_in_progress()) {
    }
    ASSERT_EQ(nccl_.destroy(group_), ncclSuccess);
  }
  int groups() {
    int (*count)() = nullptr;
    nccl_.library.find("causewayNcclGroups", count);
    return count();
  }

  intra::cuda::Nccl nccl_;
  ncclComm_t group_ = nullptr;
  const DeviceArray<float> from_{1}, to_{1};
  const Stream stream_;
};
using NcclDoubleDeathTest = NcclDouble;

TEST_F(NcclDouble, AnEventThatIsRecordedWhileItIsInProgressComesTooEarly) {
  form();
  const float before = 7;
  intra::cuda::copy_bytes(&before, to_.span().data(), sizeof before, stream_);
  const auto sum_as_seen = [&](bool wait_first) {
    EXPECT_EQ(sum(), ncclInProgress);
    while (wait_first && is_in_progress()) {
    }
    const Event event;
    stream_.record(event);
    event.synchronize();
    const Stream other;
    float seen = 0;
    intra::cuda::copy_bytes(to_.span().data(), &seen, sizeof seen, other);
    while (is_in_progress()) {
    }
    stream_.synchronize();
    return seen;
  };
  EXPECT_EQ(sum_as_seen(false), 7);
  EXPECT_EQ(sum_as_seen(true), 0);
  leave();
}

TEST_F(NcclDoubleDeathTest, CallsOfAGroupAreMadeWhenItEnds) {
  form();
  EXPECT_EQ(nccl_.group_start(), ncclSuccess);
  EXPECT_EQ(sum(), ncclSuccess);
  EXPECT_EQ(nccl_.group_end(), ncclInProgress);
  EXPECT_EQ(nccl_.group_end(), ncclInvalidUsage);
  while (is_in_progress()) {
  }
  EXPECT_DEATH(nccl_.finalize(group_), "under way");
  stream_.synchronize();
  leave();
}

TEST_F(NcclDoubleDeathTest, AGroupThatHasNotFormedIsRefused) {
  begin();
  EXPECT_DEATH(sum(), "has not formed");
  while (is_in_progress()) {
  }
  leave();
}

TEST_F(NcclDoubleDeathTest, AGroupOfCallsThatIsNotEndedIsRefused) {
  form();
  EXPECT_DEATH(
      {
        nccl_.group_start();
        sum();
        is_in_progress();
      },
      "begun and not ended");
  leave();
}

TEST_F(NcclDoubleDeathTest, AMessageOfAnotherLengthIsRefused) {
  form();
  const auto exchange = [&](std::size_t received) {
    nccl_.group_start();
    nccl_.send(from_.span().data(), 1, ncclFloat, 0, group_, stream_.get());
    nccl_.receive(to_.span().data(), received, ncclFloat, 0, group_, stream_.get());
    nccl_.group_end();
    while (is_in_progress()) {
    }
    stream_.synchronize();
  };
  exchange(1);
  EXPECT_DEATH(exchange(0), "another length");
  leave();
}

TEST_F(NcclDoubleDeathTest, AMessageOutsideAGroupOfCallsIsRefused) {
  form();
  EXPECT_DEATH(nccl_.send(from_.span().data(), 1, ncclFloat, 0, group_, stream_.get()),
               "outside a group of calls");
  leave();
}

TEST_F(NcclDoubleDeathTest, AGroupThatIsNotFinalisedIsNotDestroyed) {
  form();
  EXPECT_DEATH(nccl_.destroy(group_), "not finalised");
  leave();
}

// Of two ranks one asks for nothing. Both leave: the one whose sum failed has aborted its group.
TEST_F(NcclDouble, ARankThatHangsIsAnErrorOfTheOtherAndNoGroupIsLeft) {
  const int before = groups();
  std::latch over(1);
  intra::on_ranks(2, [&](intra::Collective& hosts) {
    intra::cuda::use_device(static_cast<int>(hosts.rank()));
    const auto group = intra::cuda::make_nccl_collective(hosts, std::chrono::milliseconds(200));
    ASSERT_NE(group, nullptr);
    if (hosts.rank() == 1) return over.wait();
    const DeviceArray<float> values(4);
    try {
      group->all_reduce_sum(values.span());
      ADD_FAILURE() << "nobody else summed";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), intra::Errc::collective);
    }
    over.count_down();
  });
  EXPECT_EQ(groups(), before);
}

}  // namespace
}  // namespace causeway::gpu_double
