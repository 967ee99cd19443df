// Blobs of which one of several senders sends wrong bytes.
#include "tests/inter/blob/transfer_fixture.h"

#include "tests/support/captured_log.h"

namespace causeway::inter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SpoiltTransfer : public Transfer {
 protected:
  SpoiltTransfer() {
    liar_spool_.spool.put(bytes_);
    spoil(liar_spool_.spool.path(id_), 0, kChunks);
  }
  // Every chunk from `first` on, `count` of them, behind the spool's back.
  static void spoil(const std::filesystem::path& file, std::uint64_t first, std::uint64_t count) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t chunk = first; chunk < first + count; ++chunk) {
      out.seekp(static_cast<std::streamoff>(chunk * kSmallChunkBytes));
      out << "wrong";
    }
  }
  void let(Link& link, int chunks) {
    for (int i = 0; i < chunks; ++i) ASSERT_TRUE(link.step());
  }

  const test::CapturedLog log_;
  Node liar_spool_;
  std::unique_ptr<Link> liar_ = link_from(liar_spool_.spool, "liar");
};

TEST_F(SpoiltTransfer, OnlyWhatOthersSentComesAgainAndTheLiarIsNamed) {
  liar_->sender.push(id_);
  let(*liar_, 1);
  link_->sender.push(id_);
  run(*link_);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3, 0)) << "its own first chunk came too late";
  EXPECT_THAT(completed_, ElementsAre("sender"));
  EXPECT_TRUE(log_.has("asking sender for 1 of its 4 chunks again"));
  EXPECT_TRUE(log_.has("liar sent 1 of the 4 chunks of blob"));
}

// Else it could spoil the blob for ever, and would never be named.
TEST_F(SpoiltTransfer, WhoPushesAgainDuringTheRepairIsDeclined) {
  liar_->sender.push(id_);
  let(*liar_, 1);
  link_->sender.push(id_);
  for (int turn = 0; turn < 20; ++turn) {
    link_->step();
    liar_->carry_answers();
    liar_->sender.push(id_);
    liar_->step();
    context_.restart();
    context_.poll();
  }
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_TRUE(log_.has("liar sent "));
}

TEST_F(SpoiltTransfer, ARepairThatWasGivenUpKeepsNobodyFromSending) {
  liar_->sender.push(id_);
  let(*liar_, 1);
  link_->sender.push(id_);
  while (!log_.has("again")) {
    link_->step();
    context_.restart();
    context_.poll();
  }
  link_->receiver.on_abandon(id_);  // its copy is gone
  const auto third = link_from(from_.spool, "third");
  third->sender.push(id_);
  run(*third);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
}

TEST_F(SpoiltTransfer, WhoWasWrongBeforeIsAskedLast) {
  liar_->sender.push(id_);
  let(*liar_, 1);
  link_->sender.push(id_);
  run(*link_);
  run(*liar_);
  const Bytes bytes = make_bytes(kSize, 7);
  const BlobId id = from_.spool.put(bytes);
  liar_spool_.spool.put(bytes);
  spoil(liar_spool_.spool.path(id), 0, kChunks);
  liar_->receiver.want(id);
  let(*liar_, 3);
  link_->drawn.clear();
  link_->receiver.want(id);
  run({link_.get(), liar_.get()});
  EXPECT_EQ(to_.spool.read(id, 0, kSize), bytes);
  EXPECT_FALSE(log_.has("asking liar"));
  EXPECT_TRUE(log_.has("asking sender for 3 of its 4 chunks again"));
}

TEST_F(SpoiltTransfer, ALiarThatSentMostIsFoundOutAfterItSentAll) {
  liar_->sender.push(id_);
  let(*liar_, 3);
  link_->sender.push(id_);
  run({link_.get(), liar_.get()});
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_TRUE(log_.has("asking liar for 1 of its 4 chunks again"));
  EXPECT_TRUE(log_.has("liar sent all of blob"));
  EXPECT_TRUE(log_.has("asking sender for 4 of its 4 chunks again"));
  EXPECT_FALSE(log_.has("sender sent"));
}

TEST_F(SpoiltTransfer, WhoSentRightChunksIsNotSuspected) {
  Node third_spool;
  third_spool.spool.put(bytes_);
  const auto third = link_from(third_spool.spool, "third");
  liar_->sender.push(id_);
  let(*liar_, 1);
  third->receiver.want(id_);
  let(*third, 1);
  link_->sender.push(id_);
  run({link_.get(), third.get(), liar_.get()});
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_TRUE(log_.has("liar sent 1 of"));
  EXPECT_FALSE(log_.has("third sent"));
  EXPECT_FALSE(log_.has("sender sent"));
}

TEST_F(SpoiltTransfer, TwoThatAreBothWrongAreGivenUp) {
  spoil(from_.spool.path(id_), 2, 1);
  liar_->sender.push(id_);
  let(*liar_, 2);
  link_->sender.push(id_);
  run({link_.get(), liar_.get()});
  EXPECT_FALSE(to_.spool.has(id_));
  EXPECT_THAT(completed_, IsEmpty());
  EXPECT_EQ(to_.spool.stored_bytes(), 0U);
  EXPECT_FALSE(link_->receiver.busy());
  EXPECT_FALSE(liar_->receiver.busy());
  EXPECT_TRUE(log_.has("liar sent all of blob"));
  EXPECT_TRUE(log_.has("sender sent all of blob"));
}

TEST_F(SpoiltTransfer, WhatIsKnownOfBlobsThatAreGoneCanBeForgotten) {
  Arrivals arrivals;
  BlobId gone = id_;
  gone.size_bytes = 1;
  arrivals.add(id_, 1, 0, "sender");
  arrivals.add(gone, 2, 0, "liar");
  arrivals.keep_only(to_.spool.begun());
  EXPECT_EQ(arrivals.size(), 0U);
  arrivals.add(id_, 1, 0, "sender");
  to_.spool.expect(id_);
  arrivals.keep_only(to_.spool.begun());
  EXPECT_EQ(arrivals.last(id_), "sender");
}

// A chunk that the disk did not take is whose it is that came later.
TEST_F(SpoiltTransfer, AChunkHasOneSender) {
  Arrivals arrivals;
  arrivals.add(id_, 1, 0, "honest");
  arrivals.add(id_, 1, 0, "liar");
  for (std::uint64_t chunk = 1; chunk < kChunks; ++chunk) arrivals.add(id_, 1, chunk, "honest");
  const std::vector<Sha256Hash> before(kChunks);
  const auto repair = arrivals.on_mismatch(id_, before, {"honest", "liar"});
  EXPECT_EQ(repair.keeper, "honest");
  EXPECT_FALSE(repair.stays.has(0));
  std::vector<Sha256Hash> after = before;
  after[0][0] = 1;
  EXPECT_THAT(arrivals.on_right(id_, after), ElementsAre(std::pair(std::string("liar"), 1U)));
}

TEST_F(SpoiltTransfer, ALinkThatIsGoneIsNotAskedToRepair) {
  liar_->sender.push(id_);
  let(*liar_, 3);
  liar_.reset();
  link_->sender.push(id_);
  run(*link_);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_TRUE(log_.has("asking sender for 3 of its 4 chunks again"));
}

}  // namespace
}  // namespace causeway::inter
