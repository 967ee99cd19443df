#include "intra/cuda/device/device.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "tests/intra/cuda/on_gpu.h"

namespace causeway::intra::cuda {
namespace {

using Device = OnGpu;

TEST_F(Device, CopiesThereAndBack) {
  constexpr std::size_t kCount = 1000;
  const PinnedArray<int> there(kCount), back(kCount);
  const DeviceArray<int> on_device(kCount);
  for (int i = 0; i < static_cast<int>(kCount); ++i) there.span()[static_cast<std::size_t>(i)] = i;
  const Stream stream;
  copy<int>(there.span(), on_device.span(), stream);
  copy<int>(on_device.span(), back.span(), stream);
  stream.synchronize();
  EXPECT_TRUE(std::ranges::equal(there.span(), back.span()));
}

// More pieces than there are slots, and a last one that fills none.
TEST_F(Device, WhatIsUploadedThroughStagingMayChangeAtOnce) {
  constexpr std::size_t kCount = (80U << 20) / sizeof(int) + 77;
  const DeviceArray<int> on_device(kCount);
  std::vector<int> there(kCount), back(kCount);
  for (std::size_t i = 0; i < kCount; ++i) there[i] = static_cast<int>(i);
  const std::vector<int> expected = there;
  const Stream stream;
  Staging staging;
  staging.upload(there.data(), on_device.span().data(), kCount * sizeof(int), stream);
  std::ranges::fill(there, -1);
  copy<int>(on_device.span(), back, stream);
  stream.synchronize();
  EXPECT_EQ(back, expected);
  // In the other direction it begins with a slot in the middle.
  std::ranges::fill(back, -1);
  staging.download(on_device.span().data(), back.data(), kCount * sizeof(int), stream);
  EXPECT_EQ(back, expected);
}

TEST_F(Device, MemoryBeginsAsZeros) {
  const DeviceArray<float> zeros(77);
  std::vector<float> values(77, 1.0F);
  const Stream stream;
  copy<float>(zeros.span(), values, stream);
  stream.synchronize();
  EXPECT_EQ(values, std::vector<float>(77));
}

TEST_F(Device, AStreamWaitsForAnother) {
  const DeviceArray<float> value(1);
  const PinnedArray<float> one(1), seen(1);
  one.span()[0] = 1;
  const Stream first, second(Stream::Priority::high);
  const Event start(true), end(true);
  first.record(start);
  copy<float>(one.span(), value.span(), first);
  first.record(end);
  second.wait_for(end);
  copy<float>(value.span(), seen.span(), second);
  second.synchronize();
  EXPECT_EQ(seen.span()[0], 1);
  EXPECT_TRUE(end.reached());
  EXPECT_GE(end.milliseconds_since(start), 0);
}

TEST_F(Device, RefusesADeviceThatIsNotThere) {
  EXPECT_FALSE(use_device(0).empty());
  EXPECT_THROW(use_device(1000), std::system_error);
}

}  // namespace
}  // namespace causeway::intra::cuda
