// A region whose directory is an older copy says so.
#include "diloco/round/old_copy.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

// Region a, whose directory has three rounds.
class OldCopyTest : public ::testing::Test {
 protected:
  static PersistentState with_rounds(const std::string& incarnation = "a's disk") {
    PersistentState state = state_of_a({"a", "b", "c"}, 3);
    auto& members = std::get<Membership>(state.raft.log.front().body);
    members = with(members, {.region = "a", .incarnation = incarnation});
    return state;
  }
  static Contribution own(Round round) {
    Contribution made = made_by("a");
    made.round = round;
    return made;
  }
  // Of the records of these rounds, each of which lists what a contributed to it.
  static std::vector<Note> noted(Region& region, const std::vector<Round>& rounds) {
    OldCopy old_copy(region);
    region.out.take();
    for (const Round round : rounds) {
      CommitRecord record;
      record.run_id = "run1";
      record.round = round;
      record.participants = {participant_of(own(round), 0.5F)};
      old_copy.check(record);
    }
    std::vector<Note> notes;
    for (const Action& action : region.out.take()) {
      if (const auto* note = std::get_if<Note>(&action)) notes.push_back(*note);
    }
    return notes;
  }
};

TEST_F(OldCopyTest, IsToldOnceByWhatTheRegionContributedSince) {
  Region region(options_of_a(), with_rounds());
  const std::vector<Note> notes = noted(region, {3, 4, 5});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].severity, Note::Severity::warning);
  EXPECT_EQ(notes[0].event, "old_copy");
  EXPECT_TRUE(
      notes[0].text.starts_with("this region contributed to round 4, and its directory, "
                                "which had 3 rounds at this start, knows nothing of that"))
      << notes[0].text;
  EXPECT_NE(notes[0].text.find("Delete ledger/incarnation in a copy"), std::string::npos);
}

TEST_F(OldCopyTest, IsNoneThatKnowsItsContributions) {
  PersistentState state = with_rounds();
  state.contributions = {own(5)};
  Region region(options_of_a(), state);
  EXPECT_TRUE(noted(region, {4, 5}).empty());
}

TEST_F(OldCopyTest, IsNoneWithoutAVoteThatCouldBeForgotten) {
  Region other(options_of_a(), with_rounds("a's lost disk"));
  EXPECT_TRUE(noted(other, {4, 5}).empty()) << "as after the loss of a disk";
  Region empty(options_of_a(), PersistentState());
  EXPECT_TRUE(noted(empty, {4, 5}).empty()) << "it joins";
}

}  // namespace
}  // namespace causeway::diloco
