// What a region says that it waits for.
#include "diloco/round/waiting_for.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/diloco/round/machines_fixture.h"

namespace causeway::diloco {
namespace {

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

// All three are up and linked: nothing that could be waited for is missing.
TEST(WaitingWithoutALeader, SaysThatNoneCanComeWhereMostDisksAreLost) {
  Region region{options_of_a(), state_of_a({"a", "b", "c"})};
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  RunEnd end{region, leader, catch_up};
  const DataCheck data_check{region};
  region.agreement.start(Time{0});
  region.worker.attach({}, std::nullopt);
  region.worker.ask();
  const auto waiting = [&] {
    return waiting_for(region, leader, beginning, data_check, end, Time{0});
  };
  for (const std::string name : {"b", "c"}) {
    EXPECT_NE(waiting().find("a majority of the regions"), std::string::npos) << waiting();
    region.peers.set_up(name, "an empty disk");
    region.agreement.raft().on_peer_up(name, "an empty disk", Time{0});
  }
  EXPECT_NE(waiting().find("the disks with which b, c voted are lost"), std::string::npos)
      << waiting();
  EXPECT_NE(waiting().find("--fork: docs/life-of-a-run.md"), std::string::npos) << waiting();
}

TEST(WaitingWithoutALeader, SaysThatThereIsNoLogYet) {
  PersistentState joiner;
  joiner.run_id = "run1";
  Region region{options_of_a(), joiner};
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  RunEnd end{region, leader, catch_up};
  const DataCheck data_check{region};
  region.agreement.start(Time{0});
  region.worker.attach({}, std::nullopt);
  const auto waiting = [&] {
    return waiting_for(region, leader, beginning, data_check, end, Time{0});
  };
  EXPECT_EQ(waiting(), "the run's log: no region of the run can be reached");
  region.peers.set_up("b", "b's disk");
  EXPECT_NE(waiting().find("none of those that can be reached (b) is one"), std::string::npos)
      << waiting();
}

}  // namespace
}  // namespace causeway::diloco
