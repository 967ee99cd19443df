// What a region says that it waits for.
#include "diloco/round/waiting_for.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diloco/round/machines_fixture.h"

namespace causeway::diloco {
namespace {

using ::testing::HasSubstr;
using WaitingForTest = MachinesTest;

TEST_F(WaitingForTest, SaysWhatIsMissing) {
  EXPECT_EQ(waiting_for(region_, leader_, beginning_, data_check_, end_, Time{0}),
            "this region's workers");
  region_.worker.attach({}, std::nullopt);
  EXPECT_EQ(waiting_for(region_, leader_, beginning_, data_check_, end_, Time{0}), "");
  region_.worker.ask();
  EXPECT_NE(waiting_for(region_, leader_, beginning_, data_check_, end_, Time{0})
                .find("a majority of the regions"),
            std::string::npos);
}

// A region whose workers ask what to do.
struct WithoutALeader {
  explicit WithoutALeader(PersistentState state) : region(options_of_a(), std::move(state)) {
    region.agreement.start(Time{0});
    region.worker.attach({}, std::nullopt);
    region.worker.ask();
  }
  std::string waiting() const {
    return waiting_for(region, leader, beginning, data_check, end, Time{0});
  }

  Region region;
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  RunEnd end{region, leader, catch_up};
  const DataCheck data_check{region};
};

// All three are up and linked: nothing that could be waited for is missing.
TEST(WaitingWithoutALeader, SaysThatNoneCanComeWhereMostDisksAreLost) {
  WithoutALeader a(state_of_a({"a", "b", "c"}));
  for (const std::string name : {"b", "c"}) {
    EXPECT_THAT(a.waiting(), HasSubstr("a majority of the regions"));
    a.region.peers.set_up(name, "an empty disk");
    a.region.agreement.raft().on_peer_up(name, "an empty disk", Time{0});
  }
  EXPECT_THAT(a.waiting(), HasSubstr("the disks with which b, c voted are lost"));
  EXPECT_THAT(a.waiting(), HasSubstr("--fork: see docs/life-of-a-run.md"));
}

TEST(WaitingWithoutALeader, SaysThatThereIsNoLogYet) {
  PersistentState joiner;
  joiner.run_id = "run1";
  WithoutALeader a(joiner);
  EXPECT_EQ(a.waiting(), "the run's log: no region of the run can be reached");
  a.region.peers.set_up("b", "b's disk");
  EXPECT_THAT(a.waiting(), HasSubstr("no region that can be reached (b) leads"));
}

}  // namespace
}  // namespace causeway::diloco
