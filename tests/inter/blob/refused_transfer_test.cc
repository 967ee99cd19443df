// Blobs that are wrong, too large, or gone.
#include "tests/inter/blob/transfer_fixture.h"

namespace causeway::inter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Transfer, WrongBytesOfAnEarlierLifeAreReplacedOnce) {
  Bytes wrong = bytes_;
  wrong[0] ^= std::byte{1};
  to_.spool.write(id_, 0, std::span(wrong).first(kSmallChunkBytes));
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(1, 2, 3, 0)) << "the others are the sender's own";
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
}

BlobId number(std::size_t i) {
  BlobId id{.hash = {}, .size_bytes = kSize};
  id.hash[0] = static_cast<std::uint8_t>(i);
  id.hash[1] = static_cast<std::uint8_t>(i >> 8U);
  return id;
}

// Each takes two files. What another peer sends too does not give way with them.
TEST_F(Transfer, OfOneThatBeginsEverMoreBlobsTheOldestGiveWay) {
  const auto other = link_from(from_.spool, "other");
  for (std::size_t i = 0; i < 2; ++i) link_->receiver.on_offer(number(i));
  other->receiver.on_chunk(
      {.id = number(1), .chunk = 0, .bytes = std::span(bytes_).first(kSmallChunkBytes)});
  for (std::size_t i = 2; i < kRememberedBlobsMax + 100; ++i) link_->receiver.on_offer(number(i));
  const std::set<BlobId> begun = to_.spool.begun();
  EXPECT_EQ(begun.size(), kRememberedBlobsMax + 1);
  EXPECT_FALSE(begun.contains(number(0)));
  EXPECT_TRUE(begun.contains(number(1)));
  EXPECT_TRUE(begun.contains(number(kRememberedBlobsMax + 99)));
}

TEST_F(Transfer, BlobsThatFindNoRoomPushOutNoneThatIsUnderWay) {
  Node full(kSize);
  Link link(from_.spool, intake_over(full.spool), "sender");
  for (std::size_t i = 0; i < kRememberedBlobsMax + 10; ++i) link.receiver.on_offer(number(i));
  EXPECT_EQ(full.spool.begun(), std::set{number(0)});
}

TEST_F(Transfer, SenderOfWrongBytesIsDeclinedTheSecondTime) {
  // The sender's file is altered behind its back.
  std::ofstream(from_.spool.path(id_), std::ios::in | std::ios::binary) << "wrong";
  link_->sender.push(id_);
  run(*link_);
  EXPECT_EQ(link_->drawn.size(), 2 * kChunks);
  ASSERT_EQ(link_->declines.size(), 1U);
  EXPECT_THAT(link_->declines[0], HasSubstr("does not match its hash"));
  EXPECT_FALSE(link_->receiver.busy());
  EXPECT_EQ(to_.spool.stored_bytes(), 0U);
  EXPECT_THAT(completed_, IsEmpty());
}

TEST_F(Transfer, ACopyThatTheDiskSpoiltIsThrownAwayWhenItIsLookedAtAgain) {
  std::vector<BlobId> lost;
  Intake own(
      context_.get_executor(), from_.spool, kNoLimit, [](const std::string&, const BlobId&) {},
      context_.get_executor(), [&lost](const BlobId& id) { lost.push_back(id); });
  const BlobId whole = from_.spool.put(make_bytes(100, 3));
  std::ofstream(from_.spool.path(id_), std::ios::in | std::ios::binary) << "wrong";
  own.recheck(whole);
  own.recheck(id_);
  own.recheck(id_);
  run({});
  EXPECT_THAT(lost, ElementsAre(id_));
  EXPECT_FALSE(from_.spool.has(id_));
  EXPECT_TRUE(from_.spool.has(whole));
}

// The chunk is taken, and then not its hash: the peer is told that the blob is not wanted.
TEST_F(Transfer, ADiskThatTakesNoHashesIsSaid) {
  fill_disk_for_hashes(id_);
  link_->sender.push(id_);
  ASSERT_TRUE(link_->step());
  context_.poll();
  link_->carry_answers();
  ASSERT_EQ(link_->declines.size(), 1U);
  EXPECT_THAT(link_->declines[0], HasSubstr("No space left on device"));
  EXPECT_FALSE(link_->receiver.busy());
  EXPECT_EQ(to_.spool.received_bytes(id_), 0U);
}

// Chunks beyond the queue of the hashing threads are hashed at once, and so is this said at once.
TEST_F(Transfer, ADiskThatTakesNoHashesIsSaidWhileManyWait) {
  const BlobId id = from_.spool.put(make_bytes(100 * kSmallChunkBytes, 2));
  fill_disk_for_hashes(id);
  link_->sender.push(id);
  for (int chunk = 0; chunk < 65; ++chunk) ASSERT_TRUE(link_->step());
  EXPECT_FALSE(link_->receiver.busy());
}

// It had asked for the blob, and nothing came yet; what another brought is not here after all.
TEST_F(Transfer, WhoeverIsAskedHearsOfADiskThatTakesNoHashes) {
  const auto other = link_from(from_.spool, "other");
  other->receiver.want(id_);
  fill_disk_for_hashes(id_);
  link_->sender.push(id_);
  ASSERT_TRUE(link_->step());
  context_.poll();
  other->carry_answers();
  EXPECT_EQ(other->declines.size(), 1U);
}

TEST_F(Transfer, BlobBeyondTheLimitIsDeclined) {
  intake_ = intake_over(to_.spool, kSize - 1);
  link_ = link_from(from_.spool, "sender");
  link_->sender.push(id_);
  run(*link_);
  EXPECT_EQ(link_->drawn.size(), 1U);
  EXPECT_FALSE(link_->sender.busy());
  EXPECT_EQ(to_.spool.stored_bytes(), 0U);
}

TEST_F(Transfer, BlobThatDoesNotFitIsDeclinedAndMayBeTriedAgain) {
  Node small(kSize + 10);
  const BlobId obstacle = small.spool.put(make_bytes(100, 3));
  intake_ = intake_over(small.spool);
  link_ = link_from(from_.spool, "sender");
  link_->sender.push(id_);
  run(*link_);
  EXPECT_THAT(completed_, IsEmpty());
  EXPECT_FALSE(link_->sender.busy());
  small.spool.remove(obstacle);
  link_->sender.push(id_);
  run(*link_);
  EXPECT_EQ(completed_.size(), 1U);
}

TEST_F(Transfer, WhoDeclinedIsOnlyOfferedWhatFollowsUntilItAsks) {
  Node small(kSize + 10);
  const BlobId obstacle = small.spool.put(make_bytes(100, 3));
  intake_ = intake_over(small.spool);
  link_ = link_from(from_.spool, "sender");
  link_->sender.push(id_);
  run(*link_);
  EXPECT_EQ(link_->declines.size(), 1U);
  const std::size_t drawn = link_->drawn.size();
  link_->sender.push(from_.spool.put(make_bytes(kSize, 2)));
  run(*link_);
  EXPECT_EQ(link_->drawn.size(), drawn) << "sent in vain";
  EXPECT_EQ(link_->declines.size(), 2U);
  EXPECT_FALSE(link_->sender.busy());
  small.spool.remove(obstacle);
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_TRUE(small.spool.has(id_));
  link_->sender.push(from_.spool.put(make_bytes(5, 4)));
  EXPECT_TRUE(link_->sender.next_chunk(1)) << "pushed, not offered";
}

TEST_F(Transfer, WhatWasQueuedBeforeADeclineIsOnlyOfferedToo) {
  Node small(100);
  intake_ = intake_over(small.spool);
  link_ = link_from(from_.spool, "sender");
  for (unsigned seed = 5; seed < 10; ++seed)
    link_->sender.push(from_.spool.put(make_bytes(kSize, seed)));
  run(*link_);
  EXPECT_EQ(link_->drawn.size(), 1U);
  EXPECT_EQ(link_->declines.size(), 5U);
}

TEST_F(Transfer, RoomIsKeptFromWhenABlobIsAskedFor) {
  Node small(kSize + 10);
  intake_ = intake_over(small.spool);
  link_ = link_from(from_.spool, "sender");
  link_->receiver.want(id_);
  EXPECT_EQ(small.spool.free_bytes(), 10U);
  EXPECT_THAT(small.spool.begun(), ElementsAre(id_));
  link_->sender.push(from_.spool.put(make_bytes(100, 2)));
  run(*link_);
  EXPECT_EQ(link_->declines.size(), 1U);
  EXPECT_TRUE(small.spool.has(id_));
  EXPECT_THAT(small.spool.begun(), IsEmpty());
}

TEST_F(Transfer, WhatDoesNotFitIsNotAskedFor) {
  Node small(kSize - 1);
  intake_ = intake_over(small.spool);
  link_ = link_from(from_.spool, "sender");
  link_->receiver.want(id_);
  EXPECT_TRUE(link_->answers.empty());
  EXPECT_THAT(small.spool.begun(), IsEmpty());
}

TEST_F(Transfer, WhatWasRemovedOnItsWayIsAskedForAnew) {
  link_->sender.push(id_);
  link_->step();
  link_->carry_answers();
  to_.spool.remove(id_);
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
}

TEST_F(Transfer, ChunksUnderWayAfterADeclineAreDroppedInSilence) {
  intake_ = intake_over(to_.spool, kSize - 1);
  link_ = link_from(from_.spool, "sender");
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1) && link_->draw(1));
  link_->deliver(1);
  link_->deliver(1);
  EXPECT_EQ(link_->answers.size(), 1U);
}

TEST_F(Transfer, RemovedBlobIsAbandonedAndTheNextOneGoes) {
  const BlobId second = from_.spool.put(make_bytes(10, 2));
  link_->sender.push(id_);
  link_->sender.push(second);
  link_->step();
  EXPECT_TRUE(link_->receiver.busy());
  from_.spool.remove(id_);
  run(*link_);
  EXPECT_EQ(link_->abandoned, 1);
  EXPECT_FALSE(link_->receiver.busy());
  EXPECT_TRUE(to_.spool.has(second));
}

TEST_F(Transfer, SaysHowFarItIs) {
  EXPECT_EQ(link_->sender.describe(), "");
  link_->sender.push(id_);
  link_->step();
  link_->carry_answers();
  EXPECT_THAT(link_->sender.describe(), HasSubstr("25 % confirmed"));
  EXPECT_THAT(link_->receiver.describe(), HasSubstr("25 % here"));
}

}  // namespace
}  // namespace causeway::inter
