// How a run ends whose rounds bring nothing more, and what one waits for that is over.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/data_check.h"
#include "diloco/round/leader.h"
#include "diloco/round/round_protocol.h"
#include "diloco/round/run_end.h"
#include "diloco/round/waiting_for.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

// Region a of two, in a run whose records list nothing, but for the first `fertile`, which list b.
// Of the log so many are committed when it starts, so that another start knows them.
class BarrenRun {
 public:
  static PersistentState state(Round known, Round fertile = 0) {
    PersistentState state = state_of_a({"a", "b"}, 8, [fertile](Round round) {
      std::vector<Participant> listed(round < fertile ? 1 : 0);
      for (Participant& one : listed) one.region = "b";
      return listed;
    });
    state.raft.committed = 1 + known;
    return state;
  }

  explicit BarrenRun(Round known, const ProtocolOptions& options = options_of_a(),
                     Round fertile = 0)
      : region{options, state(known, fertile)} {
    end.start(Time{0});
  }

  void connect() {
    region.peers.set_up("b", "b's disk");
    region.agreement.raft().on_peer_up("b", "b's disk", Time{0});
  }
  void add_record(Time now) {
    region.history.append(region.history.version() + 2);  // behind the membership
    end.add_record(now);
  }
  std::optional<EndRun> ended(Time now) {
    end.check(now);
    for (const Action& action : region.out.take()) {
      if (const auto* end_run = std::get_if<EndRun>(&action)) return *end_run;
    }
    return std::nullopt;
  }

  Region region;
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  RunEnd end{region, leader, catch_up};
};

TEST(RunEndOfABarrenRun, GivesUpAfterThreeRoundsThatListNothing) {
  BarrenRun run(0);
  for (int round = 0; round < 2; ++round) run.add_record(Time{0});
  EXPECT_FALSE(run.ended(seconds{60}));
  run.add_record(seconds{60});
  EXPECT_FALSE(run.ended(seconds{60}));  // the others are to hear of it
  const auto ended = run.ended(seconds{70});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 2);
}

// It said that this model is sound, which it is not if b has sent huge numbers.
TEST(RunEndOfABarrenRun, NamesWhoMayHaveSpoiltTheModelThatChangedLast) {
  BarrenRun run(1, options_of_a(), 1);
  for (int round = 0; round < 3; ++round) run.add_record(seconds{60});
  EXPECT_FALSE(run.ended(seconds{60}));
  const auto ended = run.ended(seconds{70});
  ASSERT_TRUE(ended);
  EXPECT_NE(ended->message.find("version 1 is the last"), std::string::npos) << ended->message;
  EXPECT_NE(ended->message.find("what one of b contributed"), std::string::npos) << ended->message;
}

TEST(RunEndOfABarrenRun, CountsTheRoundsBeforeARestart) {
  for (const Round known : {1, 2}) {
    BarrenRun run(known);
    for (Round round = known; round < 3; ++round) run.add_record(seconds{60});
    EXPECT_FALSE(run.ended(seconds{69}));
    const auto ended = run.ended(seconds{70});
    ASSERT_TRUE(ended) << known;
    EXPECT_EQ(ended->exit_code, 2);
    EXPECT_NE(ended->message.find("in 3 rounds in a row"), std::string::npos) << ended->message;
  }
}

// Whoever restarted after the last of them; nobody is left to elect a leader with.
TEST(RunEndOfABarrenRun, GivesUpWhereTheOthersHaveEnded) {
  BarrenRun run(3);
  EXPECT_FALSE(run.ended(Time{0}));
  EXPECT_FALSE(run.ended(seconds{79}));
  const auto ended = run.ended(seconds{80});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 2);
}

TEST(RunEndOfABarrenRun, ThatRestartsAloneEndsByItself) {
  RoundProtocol protocol(options_of_a(), BarrenRun::state(3));
  std::optional<int> exit_code;
  for (Time now{0}; now <= seconds{100} && !exit_code; now += seconds{1}) {
    for (const Action& action : protocol.handle(Tick{}, now)) {
      if (const auto* end = std::get_if<EndRun>(&action)) exit_code = end->exit_code;
    }
  }
  EXPECT_EQ(exit_code, 2);
}

// An operator may have lowered inner.lr and started all regions again.
TEST(RunEndOfABarrenRun, HasThreeMoreRoundsWhereAllRegionsRestarted) {
  BarrenRun run(3);
  EXPECT_FALSE(run.ended(Time{0}));  // nobody else is there yet
  run.connect();
  EXPECT_FALSE(run.ended(seconds{70}));
  EXPECT_FALSE(run.ended(seconds{1000}));
  for (int round = 0; round < 2; ++round) run.add_record(seconds{1000});
  EXPECT_FALSE(run.ended(seconds{2000}));
  run.add_record(seconds{2000});
  EXPECT_FALSE(run.ended(seconds{2009}));
  const auto ended = run.ended(seconds{2010});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 2);
  EXPECT_NE(ended->message.find("in 6 rounds in a row"), std::string::npos) << ended->message;
}

TEST(RunEndOfABarrenRun, DoesNotEndWellIfItRestartsAtTheEnd) {
  ProtocolOptions options = options_of_a();
  options.pace.steps = 12;  // three rounds
  BarrenRun run(3, options);
  ASSERT_TRUE(run.region.history.over());
  run.region.worker.restore_finished({.version = 3});
  EXPECT_FALSE(run.ended(Time{0}));
  const auto ended = run.ended(seconds{10});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 2);
}

// Region a's worker has ended; region b is behind.
TEST(WaitingForTheEnd, NamesTheOthersWhereTheOwnWorkerIsDone) {
  ProtocolOptions options = options_of_a();
  options.pace.steps = 12;  // three rounds
  BarrenRun run(3, options);
  ASSERT_TRUE(run.region.history.over());
  const DataCheck data_check{run.region};
  const auto waiting = [&] {
    return waiting_for(run.region, run.leader, run.beginning, data_check, run.end, Time{0});
  };
  EXPECT_EQ(waiting(), "this region's workers") << "it has a result to write";
  run.region.worker.attach({.version = 3}, "run1");
  run.region.worker.ask();
  run.region.worker.finish({.version = 3});
  EXPECT_EQ(waiting(), "") << "it is busy";
  run.region.worker.lose();
  EXPECT_EQ(
      waiting(),
      "the other regions to reach the last round (b), which may have ended: for 10 s at most");
}

}  // namespace
}  // namespace causeway::diloco
