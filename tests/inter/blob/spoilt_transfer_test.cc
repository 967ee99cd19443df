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

  // Of the liar so many are there before the sender begins.
  void push_both(int chunks_of_liar) {
    liar_->sender.push(id_);
    let(*liar_, chunks_of_liar);
    link_->sender.push(id_);
  }

  const test::CapturedLog log_;
  Node liar_spool_;
  std::unique_ptr<Link> liar_ = link_from(liar_spool_.spool, "liar");
};

TEST_F(SpoiltTransfer, OnlyWhatOthersSentComesAgainAndTheLiarIsNamed) {
  push_both(1);
  run(*link_);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_THAT(link_->drawn, ElementsAre(0, 1, 2, 3, 0)) << "its own first chunk came too late";
  EXPECT_THAT(completed_, ElementsAre("sender"));
  EXPECT_TRUE(log_.has("asking sender for 1 of its 4 chunks again"));
  EXPECT_TRUE(log_.has("liar sent 1 of the 4 chunks of blob"));
}

// Else it could spoil the blob for ever, and would never be named.
TEST_F(SpoiltTransfer, WhoPushesAgainDuringTheRepairIsDeclined) {
  push_both(1);
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
  push_both(1);
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
  push_both(1);
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
  push_both(3);
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
  push_both(2);
  run({link_.get(), liar_.get()});
  EXPECT_FALSE(to_.spool.has(id_));
  EXPECT_THAT(completed_, IsEmpty());
  EXPECT_EQ(to_.spool.stored_bytes(), 0U);
  EXPECT_FALSE(link_->receiver.busy());
  EXPECT_FALSE(liar_->receiver.busy());
  EXPECT_TRUE(log_.has("liar sent all of blob"));
  EXPECT_TRUE(log_.has("sender sent all of blob"));
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
