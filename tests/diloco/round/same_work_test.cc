// Regions that contribute exactly the same work.
#include "diloco/round/same_work.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

class SameWorkTest : public ::testing::Test {
 protected:
  SameWorkTest() : region_(options_of_a(), state_of_a({"a", "b", "c"})), work_(region_) {}

  static Contribution work_by(const std::string& region, Round round, double delta_norm) {
    Contribution made = made_by(region);
    made.round = round;
    made.steps = 4;
    made.tokens = 64;
    made.delta_norm = delta_norm;
    made.payload.size_bytes = 5000;
    return made;
  }
  // What is noted of the round that lists these.
  std::vector<Note> noted(const std::vector<Contribution>& all, bool heard = true) {
    CommitRecord record;
    record.run_id = "run1";
    for (const Contribution& made : all) {
      if (heard) region_.contributions.put(made);
      record.round = made.round;
      record.participants.push_back(participant_of(made, 0.5F));
    }
    region_.out.take();
    work_.check(record);
    std::vector<Note> notes;
    for (const Action& action : region_.out.take()) {
      if (const auto* note = std::get_if<Note>(&action)) notes.push_back(*note);
    }
    return notes;
  }

  Region region_;
  SameWork work_;
};

TEST_F(SameWorkTest, IsToldOnceOfAPair) {
  const auto notes = noted({work_by("a", 0, 1.25), work_by("b", 0, 2.5), work_by("c", 0, 1.25)});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].severity, Note::Severity::warning);
  EXPECT_EQ(notes[0].event, "same_work");
  EXPECT_TRUE(notes[0].text.starts_with("a and c contributed exactly the same work to round 0"))
      << notes[0].text;
  EXPECT_NE(notes[0].text.find("steps.part of steps.parts"), std::string::npos);
  EXPECT_TRUE(noted({work_by("a", 1, 3.5), work_by("c", 1, 3.5)}).empty()) << "it was said";
  EXPECT_EQ(noted({work_by("a", 2, 3.5), work_by("b", 2, 3.5)}).size(), 1U) << "another pair";
}

TEST_F(SameWorkTest, IsSeenByThePayloadToo) {
  Contribution one = work_by("a", 0, 1.25), other = work_by("b", 0, 1.5);
  other.payload = one.payload;
  EXPECT_EQ(noted({one, other}).size(), 1U);
}

TEST_F(SameWorkTest, IsNoneWhereAnythingDiffersOrNothingWasDone) {
  const Contribution one = work_by("a", 0, 1.25);
  Contribution other = work_by("b", 0, 1.25);
  other.steps = 5;
  EXPECT_TRUE(noted({one, other}).empty()) << "other steps";
  other = work_by("b", 0, 1.25);
  other.tokens = 65;
  EXPECT_TRUE(noted({one, other}).empty()) << "other tokens";
  EXPECT_TRUE(noted({work_by("a", 1, 0), work_by("b", 1, 0)}).empty()) << "timed steps";
  Contribution small = work_by("a", 2, 1.25), as_small = work_by("b", 2, 1.5);
  small.payload.size_bytes = 16;
  as_small.payload = small.payload;
  EXPECT_TRUE(noted({small, as_small}).empty()) << "equal by chance";
}

TEST_F(SameWorkTest, IsNotLookedForInRoundsThatAreCaughtUpWith) {
  EXPECT_TRUE(noted({work_by("a", 0, 1.25), work_by("b", 0, 1.25)}, false).empty());
}

}  // namespace
}  // namespace causeway::diloco
