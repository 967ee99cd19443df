// Faults of the kind that a GPU forgives or blames on something else: the doubles find them.
#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/device/device.h"
#include "tests/gpu_double/cudart.h"

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

}  // namespace
}  // namespace causeway::gpu_double
