#include "intra/worker/relay_instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string_view>
#include <utility>
#include <variant>

#include "tests/intra/collective/on_ranks.h"

namespace causeway::intra {
namespace {

using diloco::Instruction;

constexpr diloco::DataShare kShare{.index = 1, .count = 3, .pass = 5, .begin = 7};

diloco::MappedBytes file_of(std::string_view text) {
  const diloco::SealedBytes sealed(std::as_bytes(std::span(text)));
  return {sealed.share().release(), text.size()};
}

std::string text_of(const diloco::MappedBytes& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// What rank 0 of three is told, as each of them has it afterwards.
template <typename Told>
void expect_on_all(const std::function<Told()>& make, const std::function<void(const Told&)>& see) {
  on_ranks(3, [&](Collective& group) {
    std::optional<Instruction> told;
    if (group.rank() == 0) told = make();
    const Instruction relayed = relay_instruction(group, std::move(told));
    ASSERT_TRUE(std::holds_alternative<Told>(relayed)) << "rank " << group.rank();
    see(std::get<Told>(relayed));
  });
}

TEST(RelayInstruction, TellsAllRanksWhichStepsToTake) {
  expect_on_all<diloco::Train>([] { return diloco::Train{4, 30, 500, 120, kShare, 6}; },
                               [](const diloco::Train& train) {
                                 EXPECT_EQ(train.round, 4U);
                                 EXPECT_EQ(train.k, 30U);
                                 EXPECT_EQ(train.data_cursor, 500U);
                                 EXPECT_EQ(train.schedule_step, 120U);
                                 EXPECT_EQ(train.share, kShare);
                                 EXPECT_EQ(train.ahead, 6U);
                               });
  expect_on_all<diloco::Continue>(
      [] {
        return diloco::Continue{4, 30, 500, 120, kShare};
      },
      [](const diloco::Continue& order) {
        EXPECT_EQ(order.round, 4U);
        EXPECT_EQ(order.k, 30U);
        EXPECT_EQ(order.data_cursor, 500U);
        EXPECT_EQ(order.schedule_step, 120U);
        EXPECT_EQ(order.share, kShare);
      });
}

TEST(RelayInstruction, TellsThemWhatToCollectAndWhereTheRunEnds) {
  expect_on_all<diloco::Collect>([] { return diloco::Collect{8}; },
                                 [](const diloco::Collect& order) { EXPECT_EQ(order.round, 8U); });
  expect_on_all<diloco::Finish>(
      [] { return diloco::Finish{9}; },
      [](const diloco::Finish& finish) { EXPECT_EQ(finish.version, 9U); });
}

// An empty one too: that of a region which has nothing.
TEST(RelayInstruction, BringsARecordWithItsPayloadsInOrder) {
  const auto make = [] {
    diloco::Apply apply;
    apply.record.run_id = "run1";
    apply.record.round = 3;
    for (const char* payload : {"first", "", "third one"})
      apply.payloads.push_back(file_of(payload));
    return apply;
  };
  expect_on_all<diloco::Apply>(make, [](const diloco::Apply& apply) {
    EXPECT_EQ(apply.record.run_id, "run1");
    EXPECT_EQ(apply.record.round, 3U);
    std::vector<std::string> payloads;
    for (const diloco::MappedBytes& one : apply.payloads) payloads.push_back(text_of(one));
    EXPECT_THAT(payloads, testing::ElementsAre("first", "", "third one"));
  });
}

TEST(RelayInstruction, BringsASnapshotOrNoneWhereTheRunBegins) {
  diloco::Digest state{};
  state.front() = 1;
  state.back() = 9;
  for (const char* const bytes : {"a snapshot", ""}) {
    expect_on_all<diloco::Restore>(
        [&] {
          return diloco::Restore{11, state, file_of(bytes)};
        },
        [&](const diloco::Restore& restore) {
          EXPECT_EQ(restore.version, 11U);
          EXPECT_EQ(restore.state, state);
          EXPECT_EQ(text_of(restore.snapshot), bytes);
        });
  }
}

// Without a copy of what may be large.
TEST(RelayInstruction, GivesARankThatIsAloneTheSameBack) {
  const auto group = make_solo_collective();
  diloco::Restore told{2, {}, file_of("bytes")};
  const std::byte* const at = told.snapshot.bytes().data();
  const Instruction relayed = relay_instruction(*group, std::move(told));
  EXPECT_EQ(std::get<diloco::Restore>(relayed).snapshot.bytes().data(), at);
}

}  // namespace
}  // namespace causeway::intra
