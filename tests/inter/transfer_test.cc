// Blob transfers without sockets: a sender and a receiver joined by hand.
#include "inter/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

Bytes make_bytes(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

constexpr std::size_t kChunks = 4;
constexpr std::uint64_t kSize = kChunks * kChunkBytesMax - 1000;
constexpr std::uint64_t kNoLimit = 1ULL << 40;

struct Node {
  explicit Node(std::uint64_t capacity = 1U << 30) : spool(directory.path(), capacity) {}
  test::TemporaryDirectory directory;
  Spool spool;
};

void answer(BlobSender& sender, const BlobReceiver::Reply& reply) {
  if (const auto* progress = std::get_if<BlobProgress>(&reply)) {
    sender.on_progress(*progress);
  } else if (const auto* fetch = std::get_if<BlobFetch>(&reply)) {
    sender.on_fetch(*fetch);
  } else {
    sender.on_decline(std::get<BlobDecline>(reply));
  }
}

struct Step {
  FrameType type;
  std::uint64_t offset = 0;
  bool completed = false;
};

// Carries one frame over and its answer back; nothing if the sender has none.
std::optional<Step> step(BlobSender& sender, BlobReceiver& receiver, bool lose_answer = false) {
  const auto frame = sender.next();
  if (!frame) {
    return std::nullopt;
  }
  const auto type = static_cast<FrameType>((*frame)[3]);
  const auto body = std::span<const std::byte>(*frame).subspan(kFrameHeaderBytes);
  Step taken{type};
  std::optional<BlobReceiver::Reply> reply;
  if (type == FrameType::blob_offer) {
    reply = receiver.on_offer(decode_id(body));
  } else if (type == FrameType::blob_chunk) {
    const BlobChunk chunk = decode_chunk(body);
    taken.offset = chunk.offset;
    const auto result = receiver.on_chunk(chunk);
    taken.completed = result.completed;
    reply = result.reply;
  } else {
    receiver.on_abandon(decode_id(body));
  }
  if (reply && !lose_answer) {
    answer(sender, *reply);
  }
  return taken;
}

std::vector<std::uint64_t> run(BlobSender& sender, BlobReceiver& receiver, int* completed) {
  std::vector<std::uint64_t> offsets;
  while (const auto taken = step(sender, receiver)) {
    if (taken->type == FrameType::blob_chunk) {
      offsets.push_back(taken->offset);
    }
    *completed += taken->completed ? 1 : 0;
    if (offsets.size() > 100) {
      ADD_FAILURE() << "endless transfer";
      break;
    }
  }
  return offsets;
}

class Transfer : public testing::Test {
 protected:
  Node from_;
  Node to_;
  Bytes bytes_ = make_bytes(kSize);
  BlobId id_ = from_.spool.put(bytes_);
  BlobSender sender_{from_.spool, "receiver"};
  BlobReceiver receiver_{to_.spool, kNoLimit, "sender"};
  int completed_ = 0;
};

TEST_F(Transfer, PushStreamsAtOnceAndArrivesWhole) {
  sender_.push(id_);
  const auto offsets = run(sender_, receiver_, &completed_);
  EXPECT_EQ(offsets.size(), kChunks);
  EXPECT_EQ(offsets[0], 0U);
  EXPECT_EQ(completed_, 1);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_FALSE(sender_.busy());
  EXPECT_FALSE(receiver_.busy());
}

TEST_F(Transfer, EmptyBlobArrives) {
  const BlobId empty = from_.spool.put({});
  sender_.push(empty);
  run(sender_, receiver_, &completed_);
  EXPECT_EQ(completed_, 1);
  EXPECT_TRUE(to_.spool.has(empty));
}

TEST_F(Transfer, EmptyBlobArrivesAfterAReconnection) {
  const BlobId empty = from_.spool.put({});
  sender_.push(empty);
  sender_.on_reconnected();
  run(sender_, receiver_, &completed_);
  EXPECT_EQ(completed_, 1);
}

TEST_F(Transfer, BlobsGoInOrder) {
  const BlobId second = from_.spool.put(make_bytes(10, 2));
  sender_.push(id_);
  sender_.push(second);
  sender_.push(id_);  // queued already
  EXPECT_EQ(run(sender_, receiver_, &completed_).size(), kChunks + 1);
  EXPECT_EQ(completed_, 2);
}

TEST_F(Transfer, ResumesAfterAReconnectionWhereItEnded) {
  sender_.push(id_);
  step(sender_, receiver_);
  step(sender_, receiver_, true);  // arrived, but its answer was lost with the link
  BlobReceiver next_link(to_.spool, kNoLimit, "sender");
  sender_.on_reconnected();
  const auto offsets = run(sender_, next_link, &completed_);
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{2 * kChunkBytesMax, 3 * kChunkBytesMax}));
  EXPECT_EQ(completed_, 1);
}

TEST_F(Transfer, ReconnectionRepeatsNothingThatWasComplete) {
  sender_.push(id_);
  for (std::size_t i = 0; i < kChunks; ++i) {
    step(sender_, receiver_, true);
  }
  EXPECT_TRUE(sender_.busy()) << "unconfirmed";
  BlobReceiver next_link(to_.spool, kNoLimit, "sender");
  sender_.on_reconnected();
  EXPECT_TRUE(run(sender_, next_link, &completed_).empty());
  EXPECT_FALSE(sender_.busy());
}

TEST_F(Transfer, FetchStartsWhereTheSpoolEnds) {
  to_.spool.append(id_, 0, std::span(bytes_).first(1234));
  const auto fetch = receiver_.want(id_);
  ASSERT_TRUE(fetch);
  sender_.on_fetch(*fetch);
  const auto offsets = run(sender_, receiver_, &completed_);
  EXPECT_EQ(offsets.at(0), 1234U);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
}

TEST_F(Transfer, FetchOfAnAbsentBlobIsIgnored) {
  sender_.on_fetch({BlobId{{}, 10}, 0});
  EXPECT_FALSE(sender_.busy());
}

TEST_F(Transfer, NothingIsWantedThatIsHereOrUnderWay) {
  sender_.push(id_);
  step(sender_, receiver_);
  EXPECT_FALSE(receiver_.want(id_));
  run(sender_, receiver_, &completed_);
  EXPECT_FALSE(receiver_.want(id_));
}

TEST_F(Transfer, PushOfABlobThatIsThereStopsAtTheFirstAnswer) {
  to_.spool.put(bytes_);
  sender_.push(id_);
  EXPECT_EQ(run(sender_, receiver_, &completed_).size(), 1U);
  EXPECT_EQ(completed_, 0);
}

TEST_F(Transfer, TwoSendersOfOneBlobDoNotCorruptIt) {
  Node other;
  other.spool.put(bytes_);
  BlobSender second(other.spool, "receiver");
  BlobReceiver from_second(to_.spool, kNoLimit, "second");
  sender_.push(id_);
  second.push(id_);
  int chunks = 0;
  while (sender_.busy() || second.busy()) {
    for (auto [sender, receiver] :
         {std::pair{&sender_, &receiver_}, std::pair{&second, &from_second}}) {
      if (const auto taken = step(*sender, *receiver)) {
        completed_ += taken->completed ? 1 : 0;
        ASSERT_LT(++chunks, 20);
      }
    }
  }
  EXPECT_EQ(completed_, 1);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
  EXPECT_FALSE(receiver_.busy());
  EXPECT_FALSE(from_second.busy());
}

TEST_F(Transfer, GapIsAnsweredWithOneFetch) {
  sender_.push(id_);
  step(sender_, receiver_);
  to_.spool.remove(id_);
  const auto offsets = run(sender_, receiver_, &completed_);
  EXPECT_EQ(offsets.at(0), kChunkBytesMax) << "beyond the gap";
  EXPECT_EQ(offsets.at(1), 0U);
  EXPECT_EQ(offsets.size(), 1 + kChunks);
  EXPECT_EQ(completed_, 1);
}

TEST_F(Transfer, WrongPrefixIsReplacedOnce) {
  Bytes wrong = bytes_;
  wrong[0] ^= std::byte{1};
  to_.spool.append(id_, 0, std::span(wrong).first(1000));
  sender_.on_fetch(*receiver_.want(id_));
  run(sender_, receiver_, &completed_);
  EXPECT_EQ(completed_, 1);
  EXPECT_EQ(to_.spool.read(id_, 0, kSize), bytes_);
}

TEST_F(Transfer, SenderOfWrongBytesIsDeclinedTheSecondTime) {
  const Bytes wrong(10, std::byte{1});
  const BlobId id{{}, 10};
  const auto first = receiver_.on_chunk({id, 0, wrong});
  ASSERT_TRUE(std::holds_alternative<BlobFetch>(*first.reply));
  const auto second = receiver_.on_chunk({id, 0, wrong});
  ASSERT_TRUE(std::holds_alternative<BlobDecline>(*second.reply));
  EXPECT_FALSE(receiver_.busy());
  EXPECT_EQ(to_.spool.stored_bytes(), 0U);
}

TEST_F(Transfer, BlobBeyondTheLimitIsDeclined) {
  BlobReceiver strict(to_.spool, kSize - 1, "sender");
  sender_.push(id_);
  EXPECT_EQ(run(sender_, strict, &completed_).size(), 1U);
  EXPECT_FALSE(sender_.busy());
  EXPECT_EQ(to_.spool.stored_bytes(), 0U);
}

TEST_F(Transfer, BlobThatDoesNotFitIsDeclinedAndMayBeTriedAgain) {
  Node small(kSize + 10);
  const BlobId obstacle = small.spool.put(make_bytes(100, 3));
  BlobReceiver receiver(small.spool, kNoLimit, "sender");
  sender_.push(id_);
  run(sender_, receiver, &completed_);
  EXPECT_EQ(completed_, 0);
  EXPECT_FALSE(sender_.busy());
  small.spool.remove(obstacle);
  sender_.push(id_);
  run(sender_, receiver, &completed_);
  EXPECT_EQ(completed_, 1);
}

TEST_F(Transfer, ChunksUnderWayAfterADeclineAreDroppedInSilence) {
  BlobReceiver strict(to_.spool, kSize - 1, "sender");
  sender_.push(id_);
  step(sender_, strict, true);
  const auto late = strict.on_chunk({id_, kChunkBytesMax, std::span(bytes_).first(10)});
  EXPECT_FALSE(late.reply);
}

TEST_F(Transfer, RemovedBlobIsAbandonedAndTheNextOneGoes) {
  const BlobId second = from_.spool.put(make_bytes(10, 2));
  sender_.push(id_);
  sender_.push(second);
  step(sender_, receiver_);
  EXPECT_TRUE(receiver_.busy());
  from_.spool.remove(id_);
  EXPECT_EQ(step(sender_, receiver_)->type, FrameType::blob_abandon);
  EXPECT_FALSE(receiver_.busy());
  run(sender_, receiver_, &completed_);
  EXPECT_TRUE(to_.spool.has(second));
}

TEST_F(Transfer, SaysHowFarItIs) {
  EXPECT_EQ(sender_.describe(), "");
  sender_.push(id_);
  step(sender_, receiver_);
  EXPECT_THAT(sender_.describe(), HasSubstr("25 % confirmed"));
  EXPECT_THAT(receiver_.describe(), HasSubstr("25 % here"));
}

}  // namespace
}  // namespace causeway::inter
