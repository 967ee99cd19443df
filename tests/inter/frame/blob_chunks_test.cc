#include "inter/frame/blob_chunks.h"

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

ChunkMap map_of(std::uint64_t chunks, std::initializer_list<std::uint64_t> members) {
  ChunkMap map(chunks);
  for (const std::uint64_t chunk : members) {
    map.insert(chunk);
  }
  return map;
}

TEST(ChunkMap, CountsWhatIsInserted) {
  ChunkMap map(130);
  EXPECT_TRUE(map.none());
  map.insert(129);
  map.insert(129);
  EXPECT_EQ(map.count(), 1U);
  map.erase(129);
  map.erase(129);
  EXPECT_TRUE(map.none());
  EXPECT_TRUE(ChunkMap(64, true).all());
  EXPECT_EQ(ChunkMap(64, true).count(), 64U);
}

TEST(ChunkMap, FindsTheNextInEitherOrderAndGoesRound) {
  const ChunkMap map = map_of(200, {3, 64, 199});
  EXPECT_EQ(map.next(0, Order::ascending), 3U);
  EXPECT_EQ(map.next(64, Order::ascending), 64U);
  EXPECT_EQ(map.next(65, Order::ascending), 199U);
  EXPECT_EQ(map.next(198, Order::descending), 64U);
  EXPECT_EQ(map.next(2, Order::descending), 199U);
  EXPECT_EQ(map_of(200, {5}).next(6, Order::ascending), 5U);
  EXPECT_EQ(ChunkMap(200).next(0, Order::ascending), std::nullopt);
}

TEST(ChunkMap, InverseIsTheRest) {
  const ChunkMap rest = map_of(70, {0, 69}).inverse();
  EXPECT_EQ(rest.count(), 68U);
  EXPECT_FALSE(rest.has(0) || rest.has(69));
  EXPECT_TRUE(rest.has(68));
}

TEST(ChunkMap, BytesComeBackAndBadOnesDoNot) {
  const ChunkMap map = map_of(75, {0, 8, 74});
  const auto bytes = map.bytes();
  ASSERT_EQ(bytes.size(), 10U);
  const auto parsed = ChunkMap::parse(75, bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->bytes(), bytes);
  EXPECT_EQ(parsed->count(), 3U);
  EXPECT_FALSE(ChunkMap::parse(74, bytes)) << "a bit beyond the end";
  EXPECT_FALSE(ChunkMap::parse(81, bytes)) << "too short";
  EXPECT_FALSE(ChunkMap::parse(72, bytes)) << "too long";
  EXPECT_TRUE(ChunkMap::parse(64, ChunkMap(64, true).bytes()));
}

}  // namespace

}  // namespace causeway::inter
