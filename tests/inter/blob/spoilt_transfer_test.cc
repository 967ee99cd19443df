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

TEST_F(SpoiltTransfer, NothingIsTakenFromTheLiarThatWasNotAskedFor) {
  liar_->sender.push(id_);
  let(*liar_, 1);
  link_->sender.push(id_);
  run(*link_);
  run(*liar_);
  const Bytes next = make_bytes(kSize, 7);
  const BlobId id = liar_spool_.spool.put(next);
  liar_->sender.push(id);
  run(*liar_);
  EXPECT_FALSE(to_.spool.has(id));
  EXPECT_THAT(liar_->declines.back(), HasSubstr("was not asked for"));
  liar_->receiver.want(id);
  run(*liar_);
  EXPECT_EQ(to_.spool.read(id, 0, kSize), next) << "it may be the only one that has it";
}

TEST_F(SpoiltTransfer, ALiarThatSentMostIsFoundOutAfterItSentAll) {
  liar_->sender.push(id_);
  let(*liar_, 3);
  link_->sender.push(id_);
  run({link_.get(), liar_.get()});
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_TRUE(log_.has("asking liar for 1 of its 4 chunks again"));
  EXPECT_TRUE(log_.has("liar alone sent all of blob"));
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
