#include "apps/run/simulate/display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::run {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

View training() {
  View view;
  view.title = "quickstart";
  view.phase = "training";
  view.steps = 1200;
  view.round = 12;
  view.rounds = 40;
  view.elapsed_s = 72;
  view.remaining_s = 168;
  view.wan_bytes = 1'234'567;
  view.wan_bytes_per_s = 45'300;
  view.regions = {
      {"us-east", 367, 2.10341, 1824.4, 0, "compute", {{"eu-west", true, 71.4, {}}}},
      {"eu-west", 360, 2.112, 1790, 0, "waits for us-east", {{"us-east", true, 71.2, {}}}}};
  return view;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

TEST(Display, ShowsTheRoundTimesAndEveryRegion) {
  EXPECT_EQ(joined(render(training(), 200)),
            "quickstart  training  round 12/40  [#######-----------------]  1 min 12 s, about 2 "
            "min 48 s left\n"
            "region          step     loss  tokens/s  state\n"
            "us-east    367/1,200   2.1034     1,824  compute\n"
            "eu-west    360/1,200   2.1120     1,790  waits for us-east\n"
            "WAN  1.23 MB sent, 45.3 kB/s   eu-west <-> us-east 71 ms\n");
}

TEST(Display, KeepsEveryLineWithinTheWidth) {
  View view = training();
  view.notes = {std::string(300, 'x')};
  for (const std::size_t width : {20, 40, 79}) {
    for (const std::string& line : render(view, width)) EXPECT_LE(line.size(), width);
  }
}

TEST(Display, LinksThatDoNotFitGoOnToTheNextLine) {
  const auto lines = render(training(), 50);
  EXPECT_EQ(lines[4], "WAN  1.23 MB sent, 45.3 kB/s");
  EXPECT_EQ(lines[5], "     eu-west <-> us-east 71 ms");
}

TEST(Display, ShowsALinkThatIsDownFromTheSideThatMissesIt) {
  View view = training();
  view.regions[0].links[0].up = false;
  EXPECT_THAT(joined(render(view, 200)), HasSubstr("us-east <-> eu-west down"));
}

TEST(Display, ShowsRestartsAndTheNewestNotes) {
  View view = training();
  view.restarts = 2;
  for (int i = 0; i < 9; ++i) view.notes.push_back("note " + std::to_string(i));
  const auto lines = render(view, 200);
  EXPECT_THAT(lines, Contains("restarts: 2"));
  EXPECT_THAT(lines, Contains("! note 8"));
  EXPECT_THAT(lines, Not(Contains("! note 0")));
}

TEST(Display, BaselineHasNeitherRoundsNorWan) {
  View view = training();
  view.phase = "synchronous baseline";
  view.rounds = 0;
  const std::string frame = joined(render(view, 200));
  EXPECT_THAT(frame, Not(HasSubstr("WAN")));
  EXPECT_THAT(frame, Not(HasSubstr("round")));
}

TEST(Display, EscapeSequencesInStatesAreDefused) {
  View view = training();
  view.regions[0].state = "\x1b[2Jgone";
  EXPECT_THAT(joined(render(view, 200)), HasSubstr("?[2Jgone"));
}

TEST(Display, UnknownLossIsADash) {
  View view = training();
  view.regions[0].loss = {};
  EXPECT_THAT(render(view, 200)[2], HasSubstr("      -  "));
}

TEST(Display, ALossMayBeZeroOrLess) {
  View view = training();
  view.regions[0].loss = 0;
  EXPECT_THAT(render(view, 200)[2], HasSubstr(" 0.0000  "));
  view.regions[0].loss = -1.25;
  EXPECT_THAT(render(view, 200)[2], HasSubstr(" -1.2500  "));
}

TEST(PlainProgress, SaysEachThingOnce) {
  PlainProgress plain;
  View view = training();
  view.notes = {"eu-west worker 0: killed"};
  EXPECT_THAT(
      plain.lines(view),
      ElementsAre("quickstart: training, 1200 steps", "! eu-west worker 0: killed",
                  "us-east: step 367/1,200, loss 2.1034, 1,824 tokens/s, compute",
                  "eu-west: step 360/1,200, loss 2.1120, 1,790 tokens/s, waits for us-east"));
  EXPECT_THAT(plain.lines(view), IsEmpty());
}

TEST(PlainProgress, ReportsACommittedRound) {
  PlainProgress plain;
  View view = training();
  plain.lines(view);
  view.round = 13;
  EXPECT_THAT(plain.lines(view),
              ElementsAre("round 13/40 committed after 1 min 12 s, 1.23 MB over the WAN"));
}

TEST(PlainProgress, ShowsARegionAgainAfterFiveSeconds) {
  PlainProgress plain;
  View view = training();
  plain.lines(view);
  view.elapsed_s += 4.9;
  EXPECT_THAT(plain.lines(view), IsEmpty());
  view.elapsed_s += 0.2;
  EXPECT_EQ(plain.lines(view).size(), 2U);
}

TEST(PlainProgress, StartsOverWithEachPhase) {
  PlainProgress plain;
  View view = training();
  plain.lines(view);
  view.phase = "synchronous baseline";
  view.round = view.rounds = 0;
  view.elapsed_s = 0;
  EXPECT_EQ(plain.lines(view).size(), 3U);
}

}  // namespace
}  // namespace causeway::run
