// Blobs arrive whole, over connections that share the work and come and go.
#include "tests/inter/blob/transfer_fixture.h"

#include <chrono>

#include "tests/support/captured_log.h"

namespace causeway::inter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Transfer, PushStreamsAtOnceAndArrivesWhole) {
  link_->sender.push(id_);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(completed_, ElementsAre("sender"));
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_FALSE(link_->sender.busy());
  EXPECT_FALSE(link_->receiver.busy());
}

TEST_F(Transfer, EmptyBlobArrivesAlsoAfterAReconnection) {
  const BlobId empty = from_.spool.put({});
  link_->sender.push(empty);
  link_->reconnect();
  run(*link_);
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_TRUE(to_.spool.has(empty));
}

TEST_F(Transfer, BlobsGoInOrder) {
  const BlobId second = from_.spool.put(make_bytes(10, 2));
  link_->sender.push(id_);
  link_->sender.push(second);
  link_->sender.push(id_);  // queued already
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3, 0));
  EXPECT_EQ(completed_.size(), 2U);
}

// A region that catches up over a slow link is pushed all that is new meanwhile.
TEST_F(Transfer, WhatIsAskedForTakesTurnsWithWhatIsPushed) {
  const BlobId asked = from_.spool.put(make_bytes(3 * kSmallChunkBytes, 2));
  link_->sender.push(id_);
  link_->receiver.want(asked);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 0, 1, 2, 1, 2, 3));
  EXPECT_EQ(completed_.size(), 2U);
}

TEST_F(Transfer, ConnectionsStealWorkFromEachOther) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1));  // and there it stays for now
  ASSERT_TRUE(link_->step(2));
  ASSERT_TRUE(link_->step(2));
  ASSERT_TRUE(link_->step(3));
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(link_->sender.in_flight(1), 1U);
  link_->carry_answers();
  EXPECT_EQ(link_->sender.in_flight(2), 0U);
  EXPECT_EQ(link_->sender.confirmed(2), 2U);
  EXPECT_EQ(link_->sender.confirmed(1), 0U);
  EXPECT_FALSE(link_->draw(2)) << "the rest is under way";
  link_->deliver(1);
  run(*link_);
  EXPECT_EQ(completed_.size(), 1U);
}

TEST_F(Transfer, OthersCarryWhatALostConnectionDidNotDeliver) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1));
  ASSERT_TRUE(link_->step(1 + 1));
  link_->lose(1);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 0, 2, 3)) << "the lost one first, nothing twice";
  EXPECT_EQ(completed_.size(), 1U);
}

TEST_F(Transfer, ReconnectionRepeatsOnlyWhatIsMissing) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1));
  ASSERT_TRUE(link_->step(2));
  ASSERT_TRUE(link_->step(2));  // arrived; the last answers are lost with the link
  link_->reconnect();
  link_->drawn.clear();
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 3));
  EXPECT_EQ(completed_.size(), 1U);
}

TEST_F(Transfer, ReconnectionRepeatsNothingThatWasComplete) {
  link_->sender.push(id_);
  run(*link_);
  link_->sender.push(id_);
  link_->reconnect();
  link_->drawn.clear();
  run(*link_);
  EXPECT_THAT(link_->drawn, IsEmpty());
  EXPECT_FALSE(link_->sender.busy());
}

TEST_F(Transfer, FetchBringsWhatTheSpoolLacks) {
  to_.spool.write(id_, 2, std::span(bytes_).subspan(2 * kSmallChunkBytes, kSmallChunkBytes));
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 3));
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
}

// While nobody hashes: chunks that find no room in the queue are hashed at once.
TEST_F(Transfer, ArrivesFasterThanItIsHashed) {
  const Bytes large = make_bytes(100 * kSmallChunkBytes, 2);
  const BlobId id = from_.spool.put(large);
  link_->sender.push(id);
  while (link_->step()) {
  }
  EXPECT_EQ(to_.spool.received_bytes(id), large.size());
  EXPECT_EQ(intake_->verifier().hashed_bytes(), 36 * kSmallChunkBytes) << "64 of 100 wait";
  EXPECT_THAT(completed_, IsEmpty());
  run(*link_);
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_EQ(to_.spool.read(id, 0, large.size()), large);
}

// Whatever a second source says of a chunk that is here is neither stored nor hashed.
TEST_F(Transfer, WrongBytesForAChunkThatIsHereAreOfNoConsequence) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->step());
  Bytes wrong = encode_chunk(id_, 0);
  link_->receiver.on_chunk(decode_chunk(body_of(wrong)));
  run(*link_);
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
}

TEST_F(Transfer, FetchOfAnAbsentBlobIsAnsweredAndHarmless) {
  link_->receiver.want(BlobId{{}, 10});
  run(*link_);
  EXPECT_FALSE(link_->sender.busy());
  EXPECT_EQ(link_->abandoned, 1);
}

// A member that lies would take its share of the links for ever.
TEST_F(Transfer, OneBlobIsNotSentToOnePeerAgainAndAgain) {
  test::CapturedLog log;
  const auto began = LogBudget::Clock::now();
  const auto fetch_all_at = [&](LogBudget::Clock::time_point now) {
    const std::size_t before = link_->drawn.size();
    link_->sender.on_fetch({id_, Order::ascending, 0, ChunkMap(kChunks)}, now);
    while (const auto frame = link_->sender.next_chunk(1)) {
      link_->drawn.push_back(decode_chunk(body_of(*frame)).chunk);
      link_->sender.on_ack({id_, link_->drawn.back()});
    }
    return link_->drawn.size() - before;
  };
  for (int copies = 0; copies < 4; ++copies) EXPECT_EQ(fetch_all_at(began), kChunks);
  EXPECT_FALSE(log.has("receiver asks for blob")) << log.text();
  for (int times = 0; times < 100; ++times) EXPECT_EQ(fetch_all_at(began), 0U);
  EXPECT_FALSE(link_->sender.busy());
  EXPECT_TRUE(log.has("receiver asks for blob")) << log.text();
  EXPECT_TRUE(log.has("it gets no more of it for 600 s")) << log.text();
  link_->carry_control();
  EXPECT_EQ(link_->abandoned, 100) << "it may ask another region";
  EXPECT_EQ(fetch_all_at(began + std::chrono::minutes{10}), kChunks);
}

TEST_F(Transfer, WhatIsLostWithLinksCountsAsNotSent) {
  const auto now = LogBudget::Clock::now();
  for (int times = 0; times < 50; ++times) {
    link_->sender.on_fetch({id_, Order::ascending, 0, ChunkMap(kChunks)}, now);
    while (link_->sender.next_chunk(1)) {
    }
    times % 2 == 0 ? link_->sender.on_connection_lost(1) : link_->sender.on_new_session();
  }
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_EQ(completed_.size(), 1U);
}

// Its map of chunks would not fit in memory.
TEST_F(Transfer, NothingIsWantedThatIsBeyondTheLimit) {
  link_->receiver.want(BlobId{{}, std::uint64_t{1} << 63});
  run(*link_);
  EXPECT_THAT(link_->declines, ElementsAre(HasSubstr("larger than the limit")));
}

TEST_F(Transfer, NothingIsWantedThatIsHereOrUnderWay) {
  link_->sender.push(id_);
  link_->step();
  link_->carry_answers();
  link_->receiver.want(id_);
  EXPECT_THAT(link_->answers, IsEmpty());
  run(*link_);
  link_->receiver.want(id_);
  EXPECT_THAT(link_->answers, IsEmpty());
}

TEST_F(Transfer, PushOfABlobThatIsThereStopsAtTheFirstAnswer) {
  to_.spool.put(bytes_);
  link_->sender.push(id_);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(0));
  EXPECT_THAT(completed_, IsEmpty());
}

TEST_F(Transfer, TwoHoldersShareTheWorkFromBothEnds) {
  Node other;
  other.spool.put(bytes_);
  const auto second = link_from(other.spool, "second");
  link_->receiver.want(id_);
  second->receiver.want(id_);
  while (link_->step() | second->step()) {
    link_->carry_answers();
    second->carry_answers();
  }
  run({link_.get(), second.get()});
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1));
  EXPECT_THAT(second->drawn, ElementsAre(3, 2));
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_FALSE(link_->receiver.busy() || second->receiver.busy());
  EXPECT_FALSE(link_->sender.busy() || second->sender.busy());
}

TEST_F(Transfer, TwoPushesOfOneBlobCompleteItOnce) {
  Node other;
  other.spool.put(bytes_);
  const auto second = link_from(other.spool, "second");
  link_->sender.push(id_);
  second->sender.push(id_);
  while (link_->step() | second->step()) {
  }
  run({link_.get(), second.get()});
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_FALSE(link_->sender.busy() || second->sender.busy());
}

}  // namespace
}  // namespace causeway::inter
