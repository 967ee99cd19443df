// Blob transfers without sockets: senders and receivers joined by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include <fstream>

#include "inter/blob/blob_receiver.h"
#include "inter/blob/blob_sender.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Chunks = std::vector<std::uint64_t>;

Bytes make_bytes(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

constexpr std::size_t kChunks = 4;
constexpr std::uint64_t kSize = kChunks * kSmallChunkBytes - 1000;
constexpr std::uint64_t kNoLimit = kBlobBytesMax;

struct Node {
  explicit Node(std::uint64_t capacity = 1U << 30) : spool(directory.path(), capacity) {}
  test::TemporaryDirectory directory;
  Spool spool;
};

std::span<const std::byte> body_of(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}
FrameType type_of(const Bytes& frame) {
  return static_cast<FrameType>(frame[3]);
}

// One sender and what the receiving region knows of it: a link whose frames a test carries.
struct Link {
  Link(const Spool& from, const std::shared_ptr<Intake>& intake, const std::string& name)
      : sender(from, "receiver"),
        receiver(intake, name, [this](Bytes frame) { answers.push_back(std::move(frame)); }) {}

  void carry_answers() {
    for (; !answers.empty(); answers.pop_front()) {
      const auto body = body_of(answers.front());
      switch (type_of(answers.front())) {
        case FrameType::blob_fetch:
          sender.on_fetch(decode_fetch(body));
          break;
        case FrameType::blob_ack:
          sender.on_ack(decode_ack(body));
          break;
        case FrameType::blob_complete:
          sender.on_complete(decode_id(body));
          break;
        default:
          ASSERT_EQ(type_of(answers.front()), FrameType::blob_decline);
          declines.push_back(decode_decline(body).reason);
          sender.on_decline(decode_decline(body));
      }
    }
  }
  void carry_control() {
    while (const auto frame = sender.next_control()) {
      if (type_of(*frame) == FrameType::blob_offer) {
        receiver.on_offer(decode_id(body_of(*frame)));
      } else {
        receiver.on_abandon(decode_id(body_of(*frame)));
        ++abandoned;
      }
    }
  }
  // Draws one chunk for a connection; false if there is none.
  bool draw(ConnectionNumber connection) {
    carry_control();
    carry_answers();
    const auto frame = sender.next_chunk(connection);
    if (!frame) {
      carry_control();
      return false;
    }
    under_way[connection].push_back(*frame);
    drawn.push_back(decode_chunk(body_of(*frame)).chunk);
    return true;
  }
  void deliver(ConnectionNumber connection) {
    const Bytes frame = std::move(under_way[connection].front());
    under_way[connection].pop_front();
    receiver.on_chunk(decode_chunk(body_of(frame)));
  }
  bool step(ConnectionNumber connection = 1) {
    if (!draw(connection)) {
      return false;
    }
    deliver(connection);
    return true;
  }
  void lose(ConnectionNumber connection) {
    under_way[connection].clear();
    sender.on_connection_lost(connection);
  }
  void reconnect() {
    answers.clear();
    under_way.clear();
    sender.on_new_session();
  }

  BlobSender sender;
  std::deque<Bytes> answers;
  BlobReceiver receiver;
  std::map<ConnectionNumber, std::deque<Bytes>> under_way;
  Chunks drawn;
  std::vector<std::string> declines;
  int abandoned = 0;
};

class Transfer : public testing::Test {
 protected:
  std::unique_ptr<Link> link_from(const Spool& spool, const std::string& name) {
    return std::make_unique<Link>(spool, intake_, name);
  }
  std::shared_ptr<Intake> intake_over(Spool& spool, std::uint64_t limit = kNoLimit) {
    return std::make_shared<Intake>(
        context_.get_executor(), spool, limit,
        [this](const std::string& from, const BlobId&) { completed_.push_back(from); });
  }
  // Until nothing moves any more, hashing included.
  void run(std::initializer_list<Link*> links) {
    const auto guard = asio::make_work_guard(context_);
    for (int idle = 0; idle < 3;) {
      bool moved = false;
      for (Link* const link : links) {
        for (int chunks = 0; link->step(); ++chunks) {
          moved = true;
          ASSERT_LT(chunks, 100) << "endless transfer";
        }
        link->carry_answers();
      }
      context_.restart();
      moved = context_.run_one_for(std::chrono::milliseconds(20)) > 0 || moved;
      idle = moved ? 0 : idle + 1;
    }
  }
  void run(Link& link) { run({&link}); }

  asio::io_context context_;
  Node from_;
  Node to_;
  Bytes bytes_ = make_bytes(kSize);
  BlobId id_ = from_.spool.put(bytes_);
  std::vector<std::string> completed_;
  std::shared_ptr<Intake> intake_ = intake_over(to_.spool);
  std::unique_ptr<Link> link_ = link_from(from_.spool, "sender");
};

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

TEST_F(Transfer, FetchOfAnAbsentBlobIsAnsweredAndHarmless) {
  link_->receiver.want(BlobId{{}, 10});
  run(*link_);
  EXPECT_FALSE(link_->sender.busy());
  EXPECT_EQ(link_->abandoned, 1);
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

TEST_F(Transfer, WrongBytesOfAnEarlierLifeAreReplacedOnce) {
  Bytes wrong = bytes_;
  wrong[0] ^= std::byte{1};
  to_.spool.write(id_, 0, std::span(wrong).first(kSmallChunkBytes));
  link_->receiver.want(id_);
  run(*link_);
  EXPECT_THAT(link_->drawn, ElementsAre(1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(completed_.size(), 1U);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
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
