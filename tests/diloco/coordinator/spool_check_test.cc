#include "diloco/coordinator/spool_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "tests/diloco/coordinator/lone_region.h"
#include "tests/diloco/round/region_a.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Region a, and a thread that looks at files when the test says so.
class SpoolCheckTest : public ::testing::Test {
 protected:
  SpoolCheckTest() { region_.options_.copying = thread_.get_executor(); }
  // A check that was begun ends before what it refers to.
  ~SpoolCheckTest() override {
    bool joined = false;
    asio::co_spawn(region_.loop_, check_.join(), [&](std::exception_ptr) { joined = true; });
    while (!joined) look();
  }

  inter::BlobId put(char content) {
    return spool().put(std::vector<std::byte>(1000, static_cast<std::byte>(content)));
  }
  void damage(const inter::BlobId& blob) {
    std::fstream(spool().path(blob), std::ios::in | std::ios::out).put('x');
  }
  // The file is gone, and the spool does not know.
  void take_away(const inter::BlobId& blob) { std::filesystem::remove(spool().path(blob)); }
  void hand_over(const std::vector<inter::BlobId>& blobs, const std::string& what = "order") {
    check_.hand_over(blobs, [this, what] { told_.push_back(what); });
    poll(region_.loop_);
  }
  // Whatever there is to look at is looked at.
  void look() {
    poll(region_.loop_);
    poll(thread_);
    poll(region_.loop_);
  }
  static void poll(asio::io_context& loop) {
    loop.restart();
    loop.poll();
  }
  inter::Spool& spool() { return region_.directory_.spool(); }
  CoordinatorContext context() {
    CoordinatorContext context = region_.context();
    context.lose = [this](const inter::BlobId& blob) { lost_.push_back(blob); };
    return context;
  }

  asio::io_context thread_;
  LoneRegion region_{0, Start::join};
  std::vector<inter::BlobId> lost_;
  std::vector<std::string> told_;
  SpoolCheck check_{context(), [this] { told_.push_back("lacking"); }};
};

TEST_F(SpoolCheckTest, HandsOverWhatIsWholeOnceItWasLookedAt) {
  hand_over({put('a'), put('b')});
  EXPECT_THAT(told_, IsEmpty());
  look();
  EXPECT_THAT(told_, ElementsAre("order"));
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(SpoolCheckTest, TakesOutWhatIsDamagedAndHandsOverNothing) {
  const inter::BlobId whole = put('a'), damaged = put('b');
  damage(damaged);
  hand_over({whole, damaged});
  look();
  EXPECT_THAT(told_, ElementsAre("lacking"));
  EXPECT_THAT(lost_, ElementsAre(damaged));
  EXPECT_FALSE(spool().has(damaged));
  EXPECT_TRUE(spool().has(whole));
}

TEST_F(SpoolCheckTest, HandsOverNothingWhereABlobIsNotThere) {
  const inter::BlobId whole = put('a'), absent = put('b');
  spool().remove(absent);
  hand_over({whole, absent});
  look();
  EXPECT_THAT(told_, ElementsAre("lacking"));
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(SpoolCheckTest, HandsOverNothingWhereAWholeBlobLeftMeanwhile) {
  const inter::BlobId whole = put('a');
  hand_over({whole});
  spool().remove(whole);
  look();
  EXPECT_THAT(told_, ElementsAre("lacking"));
}

// A peer that asked for it read it.
TEST_F(SpoolCheckTest, LosesADamagedBlobOnceWhereSomebodyElseFoundIt) {
  const inter::BlobId damaged = put('a');
  damage(damaged);
  check_.hand_over({damaged}, [] {});
  look();
  EXPECT_THAT(lost_, ElementsAre(damaged));
  lost_.clear();
  told_.clear();
  ASSERT_EQ(put('a'), damaged);
  damage(damaged);
  hand_over({damaged});
  spool().remove(damaged);
  look();
  EXPECT_THAT(told_, ElementsAre("lacking"));
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(SpoolCheckTest, HandsOverNothingThatWasCalledOff) {
  hand_over({put('a')});
  check_.call_off();
  look();
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(SpoolCheckTest, HandsOverTheNewestOrderAlone) {
  const inter::BlobId damaged = put('a');
  damage(damaged);
  hand_over({damaged}, "first");
  hand_over({put('b')}, "second");
  look();
  EXPECT_THAT(told_, ElementsAre("second"));
  EXPECT_THAT(lost_, IsEmpty()) << "it is found when it is to be handed over again";
}

TEST_F(SpoolCheckTest, EndsWithTheDiskThatFailsAsItLooks) {
  const inter::BlobId blob = put('a');
  take_away(blob);
  std::filesystem::create_directory(spool().path(blob));  // which cannot be read
  hand_over({blob});
  look();
  std::filesystem::remove(spool().path(blob));
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_FALSE(region_.ending_.going_on());
}

// ---- Snapshots ----

// Region a, whose worker begins, and b, which is further on and has a snapshot.
class SnapshotCheck : public SpoolCheckTest {
 protected:
  SnapshotCheck() {
    region_.options_.wrong_snapshot = [this](const std::filesystem::path&, const Digest& state) {
      asked_ = state;
      if (fails_) throw std::system_error(std::make_error_code(std::errc::io_error), "its file");
      return wrong_;
    };
    snapshot_ = {.version = 1, .state = {7}, .blob = put('s')};
    region_.driver_.emplace(region_.loop_.get_executor(), region_.ending_, spool(), options_of_a(),
                            state_ahead(), [this](const Action& action) {
                              if (const auto* check = std::get_if<CheckSnapshot>(&action))
                                check_.carry_out(*check);
                              saved_ = saved_ || std::holds_alternative<SaveSnapshot>(action);
                              dropped_ = dropped_ || std::holds_alternative<RemoveBlob>(action);
                            });
    region_.driver_->handle(WorkerAttached{});
    region_.driver_->handle(PeerUp{.peer = "b", .incarnation = "b's disk"});
    Status further;
    further.version = further.payloads_from = 2;
    further.snapshot = snapshot_;
    region_.driver_->handle(PeerSaid{"b", further});
    region_.driver_->handle(BlobArrived{snapshot_.blob});
  }
  static PersistentState state_ahead() {
    return state_of_a({"a", "b", "c"}, 1, [](Round) {
      return std::vector<Participant>{
          {.region = "b", .weight = 1, .payload = made_by("b").payload}};
    });
  }

  std::string wrong_;
  bool fails_ = false;
  std::optional<Digest> asked_;
  Snapshot snapshot_;
  bool saved_ = false, dropped_ = false;
  test::CapturedLog log_;
};

TEST_F(SnapshotCheck, TellsTheProtocolOfOneThatIsRight) {
  look();
  EXPECT_EQ(asked_, snapshot_.state);
  EXPECT_TRUE(saved_);
  EXPECT_FALSE(dropped_);
  EXPECT_EQ(log_.text(), "");
}

TEST_F(SnapshotCheck, TellsTheProtocolAndTheLogOfOneThatIsWrong) {
  wrong_ = "holds another state";
  look();
  EXPECT_FALSE(saved_);
  EXPECT_TRUE(dropped_);
  EXPECT_TRUE(log_.has("a: what a region offers as the snapshot of version 1 holds another state"))
      << log_.text();
  EXPECT_THAT(lost_, IsEmpty()) << "it came as it was sent";
}

// Who sent it may have sent the right one.
TEST_F(SnapshotCheck, TakesOutOneThatTheOwnDiskDamaged) {
  wrong_ = "is damaged";
  damage(snapshot_.blob);
  look();
  EXPECT_THAT(lost_, ElementsAre(snapshot_.blob));
  EXPECT_FALSE(spool().has(snapshot_.blob));
  EXPECT_FALSE(saved_ || dropped_);
  EXPECT_FALSE(log_.has("what a region offers"));
}

TEST_F(SnapshotCheck, EndsWithTheDiskThatFailsAsItLooks) {
  fails_ = true;
  look();
  EXPECT_FALSE(saved_ || dropped_);
  EXPECT_EQ(region_.ending_.storage_failure(), "its file: Input/output error");
}

TEST_F(SnapshotCheck, SaysNothingOfOneThatWasThrownAwayMeanwhile) {
  wrong_ = "is gone";
  poll(region_.loop_);
  spool().remove(snapshot_.blob);
  look();
  EXPECT_FALSE(saved_ || dropped_);
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_FALSE(log_.has("what a region offers"));
}

}  // namespace
}  // namespace causeway::diloco::testing
