#include "intra/worker/rank_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "tests/support/captured_log.h"
#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::intra {
namespace {

using std::chrono::milliseconds;

void must_not_wait(const std::string& what) {
  FAIL() << "waits for " << what;
}

class RankClaimTest : public ::testing::Test {
 protected:
  // What a second process of a rank would hold. Locks by descriptor and by process exclude each
  // other, within a process too.
  std::optional<diloco::Descriptor> hold(std::uint32_t rank) const {
    return diloco::lock_file(directory() / ("worker-" + std::to_string(rank) + ".lock"));
  }
  std::filesystem::path directory() const { return root_.path() / "region"; }

  test::TemporaryDirectory root_;
};

TEST_F(RankClaimTest, OtherRanksAndWhatEndedAreInNobodysWay) {
  const auto first = claim_rank(directory(), 0, must_not_wait);
  EXPECT_TRUE(claim_rank(directory(), 1, must_not_wait));
  EXPECT_FALSE(hold(0));
}

TEST_F(RankClaimTest, WaitsForTheOneThatHasItAndSaysSo) {
  diloco::create_private_directories(directory());
  auto other = hold(0);
  ASSERT_TRUE(other);
  const test::CapturedLog log;
  int times = 0;
  const auto claimed = claim_rank(directory(), 0, [&](const std::string& what) {
    EXPECT_EQ(what, "another worker of rank 0 to end");
    if (++times == 2) other.reset();
  });
  EXPECT_TRUE(claimed);
  EXPECT_FALSE(hold(0));
  EXPECT_EQ(log.count("a worker of this rank runs in " + directory().string() + " already"), 1U);
}

TEST_F(RankClaimTest, IsRefusedWhereTheOtherDoesNotEnd) {
  diloco::create_private_directories(directory());
  const auto other = hold(0);
  EXPECT_THAT([&] { claim_rank(directory(), 0, must_not_wait, milliseconds{0}); },
              ::testing::ThrowsMessage<std::system_error>(
                  ::testing::HasSubstr("stop it before another takes its place (process ")));
}

TEST_F(RankClaimTest, IsGivenUpWhenTheProgramStops) {
  diloco::create_private_directories(directory());
  const auto other = hold(0);
  const auto stop = [](const std::string&) { throw std::runtime_error("stopped"); };
  EXPECT_THROW(claim_rank(directory(), 0, stop), std::runtime_error);
}

// A notebook makes a second worker before it lets go of the first.
TEST_F(RankClaimTest, OneProcessMayHaveItTwiceAndHoldsItUntilTheLastIsGone) {
  auto first = claim_rank(directory(), 0, must_not_wait);
  auto second = claim_rank(root_.path() / "." / "region", 0, must_not_wait);
  first.reset();
  EXPECT_FALSE(hold(0));
  second.reset();
  EXPECT_TRUE(hold(0));
}

// A loader of data that outlives its program would keep the next one waiting.
TEST_F(RankClaimTest, IsNotHeldByForkedProcesses) {
  auto claimed = claim_rank(directory(), 0, must_not_wait);
  int until_closed[2];
  ASSERT_EQ(::pipe(until_closed), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(until_closed[1]);
    char end = 0;
    ::_exit(static_cast<int>(::read(until_closed[0], &end, 1)));
  }
  claimed.reset();
  EXPECT_TRUE(hold(0));
  ::close(until_closed[1]);
  ::waitpid(child, nullptr, 0);
  ::close(until_closed[0]);
}

TEST_F(RankClaimTest, AHostThatOpensNoFileHoldsNobodyUp) {
  diloco::create_private_directories(directory());
  const test::CapturedLog log;
  {
    const test::NoMoreFiles limit;
    EXPECT_FALSE(claim_rank(directory(), 0, must_not_wait));
  }
  EXPECT_TRUE(log.has("another worker of rank 0 would not be noticed"));
}

}  // namespace
}  // namespace causeway::intra
