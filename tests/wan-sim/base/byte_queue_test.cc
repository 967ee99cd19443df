#include "wan-sim/base/byte_queue.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

TEST(ByteQueue, GivesBackWhatWasPutInAcrossBlocks) {
  ByteQueue queue;
  std::mt19937 random(1);
  std::uint64_t in = 0, out = 0;
  const std::uint64_t total = 10 * ByteQueue::kBlockBytes + 17;
  while (out < total) {
    auto space = queue.prepare(std::min<std::uint64_t>(total - in, random() % 50'000));
    for (auto& byte : space) byte = static_cast<std::byte>(in++ * 31);
    queue.commit(space.size());
    const auto bytes = queue.front(random() % 50'000);
    for (const auto byte : bytes) ASSERT_EQ(byte, static_cast<std::byte>(out++ * 31));
    queue.consume(bytes.size());
    ASSERT_EQ(queue.size(), in - out);
  }
}

TEST(ByteQueue, ShowsNothingWhenEmpty) {
  ByteQueue queue;
  EXPECT_TRUE(queue.front(100).empty());
  EXPECT_EQ(queue.prepare(1'000'000).size(), ByteQueue::kBlockBytes);
  EXPECT_TRUE(queue.front(100).empty());
}

TEST(ByteQueue, KeepsPreparedBytesThatWereNotCommittedOut) {
  ByteQueue queue;
  queue.prepare(100)[0] = std::byte{7};
  queue.commit(1);
  queue.prepare(100)[0] = std::byte{8};
  EXPECT_EQ(queue.front(100).size(), 1U);
  EXPECT_EQ(queue.front(100)[0], std::byte{7});
}

}  // namespace
}  // namespace causeway::wan_sim
