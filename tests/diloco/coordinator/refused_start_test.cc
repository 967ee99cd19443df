// Whole coordinators that must not start, or not together.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "diloco/files/file_io.h"
#include "inter/blob/spool.h"
#include "tests/diloco/coordinator/run_checks.h"
#include "tests/diloco/coordinator/run_fixture.h"

namespace causeway::diloco {
namespace {

TEST(Coordinator, AnotherConfigurationIsRefusedWithTheDifference) {
  TestRun run({"a", "b"}, 4);
  run.set_shared_config("a", "model.layers = 4\ntrain.k = 4\n");
  run.set_shared_config("b", "model.layers = 6\ntrain.k = 4\n");
  run.start("b", Start::join);
  run.start("a", Start::found);
  const auto outcome = run.outcome("b");
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 2);
  EXPECT_NE(outcome->message.find("model.layers = "), std::string::npos) << outcome->message;
  EXPECT_EQ(outcome->message.find("train.k"), std::string::npos) << outcome->message;
}

TEST(Coordinator, ResumingWithoutARunSaysWhatToDo) {
  TestRun run({"a", "b"}, 4);
  run.start("a", Start::resume);
  run.start("b", Start::resume);
  EXPECT_EQ(run.outcome("a")->exit_code, 4);
  EXPECT_NE(run.outcome("a")->message.find("--found"), std::string::npos);
  EXPECT_EQ(run.outcome("b")->exit_code, 4);
  EXPECT_NE(run.outcome("b")->message.find("--join"), std::string::npos);
}

TEST(Coordinator, ThatCannotListenEndsAndLeavesNothingRunning) {
  TestRun run({"a", "b"}, 4);
  run.start("a", Start::found);
  run.collide("b", "a");
  run.start("b", Start::join);
  ASSERT_TRUE(run.is_idle("b"));
  EXPECT_NE(run.outcome("b")->message.find("cannot listen on 127.0.0.1:"), std::string::npos)
      << run.outcome("b")->message;
}

TEST(Coordinator, FoundingOverARunIsRefused) {
  TestRun run({"a"}, 1);
  run.start_all();
  expect_complete(run, {"a"}, 1);
  run.destroy("a");
  run.start("a", Start::found);
  EXPECT_EQ(run.outcome("a")->exit_code, 4);
}

TEST(Coordinator, AnotherRegionsDirectoryIsRefused) {
  TestRun run({"a", "b"}, 2);
  run.start_all();
  expect_complete(run, {"a", "b"}, 2);
  run.destroy("a");
  run.destroy("b");
  std::filesystem::remove_all(run.directory("b"));
  std::filesystem::rename(run.directory("a"), run.directory("b"));
  const auto signed_by_a = read_file(run.directory("b") / "ledger" / "records");
  run.start("b", Start::resume);
  const auto outcome = run.outcome("b");
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->message.find("is that of region a"), std::string::npos) << outcome->message;
  EXPECT_EQ(read_file(run.directory("b") / "ledger" / "records"), signed_by_a);
}

// The founder lost its disk and founded another run while the other region was away.
TEST(Coordinator, OfTwoRunsTheOneWithoutRoundsEndsAndSaysWhatToDo) {
  TestRun run({"a", "b"}, 2);
  run.start_all();
  expect_complete(run, {"a", "b"}, 2);
  run.destroy("a");
  run.destroy("b");
  std::filesystem::remove_all(run.directory("a"));
  run.start("b", Start::resume);
  run.start("a", Start::found);
  const auto outcome = run.outcome("a");
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 4) << outcome->message;
  EXPECT_NE(outcome->message.find("belongs to run"), std::string::npos) << outcome->message;
  EXPECT_NE(outcome->message.find("empty the directory of a and start it with --join"),
            std::string::npos)
      << outcome->message;
  run.stop("b");
  const auto other = run.outcome("b");
  ASSERT_TRUE(other);
  EXPECT_NE(other->exit_code, 4) << other->message;
}

}  // namespace
}  // namespace causeway::diloco
