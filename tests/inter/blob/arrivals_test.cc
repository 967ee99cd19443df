#include "inter/blob/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace causeway::inter {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kFour = 4;
constexpr BlobId kBlob{.hash = {1}, .size_bytes = kFour * kSmallChunkBytes};

TEST(Arrivals, WhatIsKnownOfBlobsThatAreGoneCanBeForgotten) {
  Arrivals arrivals;
  BlobId gone = kBlob;
  gone.size_bytes = 1;
  arrivals.add(kBlob, 1, 0, "sender");
  arrivals.add(gone, 2, 0, "liar");
  arrivals.keep_only({kBlob});
  EXPECT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals.last(kBlob), "sender");
}

// A disk did not take it the first time: it is whose it is that came later.
TEST(Arrivals, AChunkHasOneSender) {
  Arrivals arrivals;
  arrivals.add(kBlob, 1, 0, "honest");
  arrivals.add(kBlob, 1, 0, "liar");
  for (std::uint64_t chunk = 1; chunk < kFour; ++chunk) arrivals.add(kBlob, 1, chunk, "honest");
  const std::vector<Sha256Hash> before(kFour);
  const auto repair = arrivals.on_mismatch(kBlob, before, {"honest", "liar"});
  EXPECT_EQ(repair.keeper, "honest");
  EXPECT_FALSE(repair.stays.has(0));
  std::vector<Sha256Hash> after = before;
  after[0][0] = 1;
  EXPECT_THAT(arrivals.on_right(kBlob, after), ElementsAre(std::pair(std::string("liar"), 1U)));
}

// It was thrown away for want of room, say: nobody is accused for what came before.
TEST(Arrivals, ALifeThatNoRepairBeganForgetsTheEarlierOne) {
  Arrivals arrivals;
  const std::vector<Sha256Hash> hashes(kFour);
  arrivals.add(kBlob, 1, 0, "other");
  for (std::uint64_t chunk = 1; chunk < kFour; ++chunk) arrivals.add(kBlob, 1, chunk, "sender");
  EXPECT_EQ(arrivals.on_mismatch(kBlob, hashes, {"other", "sender"}).keeper, "sender");
  for (std::uint64_t chunk = 0; chunk < kFour; ++chunk) arrivals.add(kBlob, 2, chunk, "sender");
  const auto repair = arrivals.on_mismatch(kBlob, hashes, {"other", "sender"});
  EXPECT_EQ(repair.alone, "sender");
  EXPECT_EQ(repair.wrong, "");
}

}  // namespace
}  // namespace causeway::inter
