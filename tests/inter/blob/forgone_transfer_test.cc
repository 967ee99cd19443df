// What the receiver asks for again, or needs no more.
#include "tests/inter/blob/transfer_fixture.h"

namespace causeway::inter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AskedAgain : public Transfer {
 protected:
  // As a receiver did before it remembered what it had asked for.
  void ask_again() { link_->sender.on_fetch({id_, Order::ascending, 0, to_.spool.held(id_)}); }
};

TEST_F(AskedAgain, ItIsNotSentAgainWhileItIsUnderWay) {
  link_->receiver.want(id_);
  ASSERT_TRUE(link_->draw(1) && link_->draw(2));
  ask_again();
  ASSERT_TRUE(link_->draw(3));
  for (const ConnectionNumber connection : {2, 3, 1}) link_->deliver(connection);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(link_->sender.idle());
}

TEST_F(AskedAgain, ItOutlivesItsConnection) {
  link_->receiver.want(id_);
  ASSERT_TRUE(link_->draw(1) && link_->draw(2));
  ask_again();
  link_->lose(1);
  link_->deliver(2);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 0, 2, 3));
}

TEST_F(AskedAgain, WhatCameFromElsewhereIsNoLongerUnderWay) {
  const auto other = link_from(from_.spool, "other");
  link_->receiver.want(id_);
  ASSERT_TRUE(link_->draw(1));
  other->sender.push(id_);
  ASSERT_TRUE(other->step());
  link_->answers.clear();
  ask_again();
  EXPECT_FALSE(link_->sender.under_way());
}

TEST_F(Transfer, WhatWasAskedForIsNotAskedForAgain) {
  link_->receiver.want(id_);
  link_->receiver.want(id_);
  EXPECT_EQ(link_->answers.size(), 1U);
  to_.spool.remove(id_);
  link_->receiver.want(id_);
  EXPECT_EQ(link_->answers.size(), 2U) << "what of it was here is gone";
  link_->receiver.on_abandon(id_);
  link_->receiver.want(id_);
  EXPECT_EQ(link_->answers.size(), 3U) << "the peer may have it now";
}

TEST_F(Transfer, ARequestThatGotLostIsMadeAgainSomeTime) {
  for (int i = 0; i < 20; ++i) link_->receiver.want(id_);
  EXPECT_GT(link_->answers.size(), 1U);
  EXPECT_LT(link_->answers.size(), 5U);
}

// What is queued is offered after each of them.
TEST_F(Transfer, WhatWasAskedForComesThoughOthersAreDeclinedBeforeItBegins) {
  const BlobId first = from_.spool.put(make_bytes(5, 2)),
               second = from_.spool.put(make_bytes(5, 3));
  link_->sender.push(first);
  link_->sender.push(second);
  link_->receiver.want(id_);
  link_->carry_answers();
  for (const BlobId& declined : {first, second}) {
    link_->sender.on_decline({declined, "full"});
    link_->carry_control();
    link_->carry_answers();
  }
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
}

TEST_F(Transfer, WhatWasDroppedInSilenceIsSentWhenItIsAskedFor) {
  fill_disk_for_hashes(id_);
  link_->sender.push(id_);
  run(*link_);
  ASSERT_EQ(link_->declines.size(), 1U);
  to_.spool.remove(id_);
  link_->receiver.want(from_.spool.put(make_bytes(5, 2)));
  run(*link_);
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1));
  link_->deliver(1);
  ASSERT_EQ(to_.spool.received_bytes(id_), 0U);
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
}

TEST_F(Transfer, WhatIsForgoneIsNotSentAndWhatFollowsIs) {
  const BlobId second = from_.spool.put(make_bytes(kSize, 2));
  link_->receiver.want(id_);
  link_->receiver.want(second);
  ASSERT_TRUE(link_->step());
  link_->receiver.forgo(id_);
  run(*link_);
  EXPECT_FALSE(to_.spool.has(id_));
  EXPECT_TRUE(to_.spool.has(second));
  EXPECT_EQ(link_->drawn.size(), 1 + kChunks);
  EXPECT_THAT(link_->declines, ElementsAre(""));
  EXPECT_FALSE(link_->sender.busy());
  link_->sender.push(from_.spool.put(make_bytes(5, 4)));
  EXPECT_TRUE(link_->sender.next_chunk(1)) << "pushed, not offered";
}

TEST_F(Transfer, WhatIsPushedIsForgoneToo) {
  link_->sender.push(id_);
  link_->receiver.forgo(id_);
  run(*link_);
  EXPECT_THAT(link_->drawn, IsEmpty());
  EXPECT_FALSE(link_->sender.busy());
}

TEST_F(Transfer, WhatWasUnderWayWhenItWasForgoneStays) {
  link_->receiver.want(id_);
  ASSERT_TRUE(link_->draw(1));
  link_->receiver.forgo(id_);
  link_->carry_answers();
  link_->deliver(1);
  EXPECT_EQ(to_.spool.received_bytes(id_), kSmallChunkBytes);
  EXPECT_FALSE(link_->receiver.busy()) << "no more of it comes";
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3));
}

// A full path takes two chunks at a time.
TEST_F(Transfer, WhatIsUnderWayOfAForgoneBlobFillsThePathUntilItIsThere) {
  link_->receiver.want(id_);
  ASSERT_TRUE(link_->draw(1) && link_->draw(1));
  link_->receiver.forgo(id_);
  link_->carry_answers();
  EXPECT_FALSE(link_->sender.busy());
  EXPECT_EQ(link_->sender.in_flight(1), 2U);
  EXPECT_TRUE(link_->sender.under_way());
  EXPECT_FALSE(link_->sender.idle());
  link_->deliver(1);
  link_->carry_answers();
  EXPECT_EQ(link_->sender.in_flight(1), 1U);
  EXPECT_EQ(link_->sender.confirmed(1), 1U);
  link_->lose(1);
  EXPECT_TRUE(link_->sender.idle());
}

TEST_F(Transfer, WhatIsDroppedInSilenceFillsNoPath) {
  link_->receiver.want(id_);
  ASSERT_TRUE(link_->draw(1) && link_->draw(1));
  link_->receiver.forgo(id_);
  link_->carry_answers();
  link_->sender.on_decline({id_, "full"});
  EXPECT_TRUE(link_->sender.idle());
}

TEST_F(Transfer, WhatIsUnderWayOfABlobThatIsGoneFillsThePathToo) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1) && link_->draw(1));
  from_.spool.remove(id_);
  ASSERT_FALSE(link_->draw(1));
  EXPECT_EQ(link_->sender.in_flight(1), 2U);
  link_->deliver(1);
  link_->deliver(1);
  link_->carry_answers();
  EXPECT_TRUE(link_->sender.idle());
}

TEST_F(Transfer, WhatIsUnderWayWhenItIsPushedAnewIsNotSentTwice) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1));
  link_->receiver.forgo(id_);
  link_->carry_answers();
  link_->sender.push(id_);
  ASSERT_TRUE(link_->draw(1));
  for (int i = 0; i < 2; ++i) link_->deliver(1);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(link_->sender.idle());
}

// What says so was lost with the link.
TEST_F(Transfer, WhatIsForgoneIsNotAskedForWhenItIsOffered) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->step());
  link_->receiver.forgo(id_);
  link_->reconnect();
  run(*link_);
  EXPECT_EQ(link_->drawn.size(), 1U);
  EXPECT_FALSE(link_->sender.busy());
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
}

TEST_F(Transfer, WhatIsForgoneAndPushedAnewIsTaken) {
  link_->sender.push(id_);
  ASSERT_TRUE(link_->step());
  link_->receiver.forgo(id_);
  link_->carry_answers();
  link_->sender.push(id_);
  run(*link_);
  EXPECT_TRUE(to_.spool.has(id_));
  EXPECT_FALSE(link_->sender.busy());
}

}  // namespace
}  // namespace causeway::inter
