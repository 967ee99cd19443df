#include "diloco/coordinator/abstention.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "diloco/files/file_io.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/worker/stream/frame.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/support/captured_log.h"
#include "tests/support/process_limits.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Region a, whose disk failed. It looks at it whenever it can.
class AbstentionTest : public ::testing::Test {
 protected:
  AbstentionTest() {
    region_.begin();
    worker_.open();
    status_.region = "a";
  }
  ~AbstentionTest() override {
    if (abstention_) end_wait();
    run(worker_.stop());
  }

  CoordinatorContext context() {
    CoordinatorContext context = region_.context();
    context.status = [this] { return status_; };
    return context;
  }
  void begin() {
    region_.ending_.fail(std::make_exception_ptr(
        std::system_error(std::make_error_code(std::errc::no_space_on_device), "ledger")));
    abstention_.emplace(context(), links_, worker_, pace_);
    asio::co_spawn(region_.loop_, abstention_->wait_out(), [this](std::exception_ptr failure) {
      over_ = true;
      failure_ = failure;
    });
  }
  // It uses the rest of the fixture.
  void end_wait() {
    if (!region_.ending_.outcome()) region_.ending_.finish({130, "interrupted"});
    region_.loop_.restart();
    while (!over_) region_.loop_.run_one();
  }
  // For as long as it takes to look many times.
  void look() {
    region_.loop_.restart();
    for (int handlers = 0; handlers < 60 && !over_; ++handlers) region_.loop_.run_one();
  }
  std::exception_ptr run(asio::awaitable<void> work) {  // what it throws
    std::optional<std::exception_ptr> over;
    asio::co_spawn(region_.loop_, std::move(work),
                   [&over](std::exception_ptr thrown) { over = thrown; });
    region_.loop_.restart();
    while (!over) region_.loop_.run_one();
    return *over;
  }
  void attach() {
    AttachRequest rank_0;
    rank_0.region = "a";
    worker_.on_gathered(rank_0, {});
  }
  void hand_over(std::size_t bytes) {
    const std::string payload(bytes, 'p');
    worker_.intake().begin_gathering();
    worker_.intake().take(region_.contribution(),
                          SealedBytes(std::as_bytes(std::span(payload))).share());
    run(worker_.intake().join());
  }
  void contribute(std::uint64_t bytes) {
    Contribution made = region_.contribution();
    made.payload.size_bytes = bytes;
    region_.driver_->handle(WorkerContributed{made});
  }
  std::string shown() const {
    return read_file(region_.options_.directory / "status.json").value_or("");
  }

  test::CapturedLog log_;
  LoneRegion region_{3U << 20};
  RegionStatus status_;
  PeerLinks links_{region_.context()};
  WorkerSide worker_{region_.context()};
  Abstention::Pace pace_{milliseconds{0}, milliseconds{0}, milliseconds{0}, hours{1}};
  std::optional<Abstention> abstention_;
  bool over_ = false;
  std::exception_ptr failure_;
};

TEST_F(AbstentionTest, SaysWhatFailedAndWhatToDo) {
  begin();
  EXPECT_THAT(abstention_->why(), ::testing::HasSubstr("its storage fails (ledger: No space left"));
  EXPECT_THAT(abstention_->why(),
              ::testing::HasSubstr("Make room in " + region_.options_.directory.string() + ", or"));
}

TEST_F(AbstentionTest, IsOverWhenTheDiskTakesBytesAgain) {
  attach();
  begin();
  {
    const test::FullDisk full(100'000);
    look();
    EXPECT_FALSE(over_);
    EXPECT_TRUE(log_.has("a: its storage fails"));
  }
  look();
  EXPECT_TRUE(over_);
  EXPECT_FALSE(failure_);
  EXPECT_TRUE(log_.has("a: its storage works again"));
}

// All other regions wait for it, which one write that failed is not worth.
TEST_F(AbstentionTest, LooksSoonAfterTheFirstFailureForLong) {
  const Abstention::Pace first = Abstention::pace_after(hours{1});
  const Abstention::Pace again = Abstention::pace_after(std::chrono::seconds{1});
  EXPECT_LE(first.look_first, milliseconds{100});
  EXPECT_EQ(again.look_first, again.look_every);
  pace_ = {milliseconds{0}, milliseconds{0}, hours{1}, hours{1}};
  begin();
  look();
  EXPECT_TRUE(over_);
}

// What a worker waits for may be a decision that will not come.
TEST_F(AbstentionTest, LetsWorkersAttachAnew) {
  attach();
  const test::FullDisk full(100'000);
  begin();
  look();
  EXPECT_FALSE(worker_.is_attached());
  EXPECT_TRUE(std::filesystem::is_socket(region_.options_.directory / "worker.sock"));
}

// It bound the socket anew, which a disk that is read-only refuses: the worker found nobody.
TEST_F(AbstentionTest, ListensWhereItListenedBefore) {
  const std::filesystem::path socket = region_.options_.directory / "worker.sock";
  std::filesystem::create_hard_link(socket, region_.options_.directory / "the same");
  const test::FullDisk full(100'000);
  begin();
  look();
  EXPECT_EQ(std::filesystem::hard_link_count(socket), 2) << "it is another one";
  EXPECT_TRUE(connect_to(socket));
}

// For this process alone. False: we may not.
bool make_read_only(const std::filesystem::path& directory) {
  const auto mount = [&directory](unsigned long flags) {
    return ::mount(directory.c_str(), directory.c_str(), nullptr, flags, nullptr) == 0;
  };
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 && mount(MS_BIND) &&
         mount(MS_REMOUNT | MS_BIND | MS_RDONLY);
}

// Removing a note that is not there fails there as well.
TEST_F(AbstentionTest, ServesWorkersOnADiskThatBecameReadOnly) {
  constexpr int kNoMount = 77;
  const auto reopen = [this] {
    if (!make_read_only(region_.options_.directory)) std::_Exit(kNoMount);
    std::_Exit(run(worker_.reopen()) ? 1 : 0);
  };
  int code = -1;
  const auto ended = [&code](int status) {
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return code == 0 || code == kNoMount;
  };
  EXPECT_EXIT(reopen(), ended, "");
  if (code == kNoMount) GTEST_SKIP() << "file systems are mounted by root alone";
}

// They are kept for the run.
TEST_F(AbstentionTest, GivesSpareFilesBackToTheDisk) {
  inter::Spool& spool = region_.directory_.spool();
  spool.remove(spool.put(std::vector<std::byte>(1U << 20)));
  ASSERT_GT(spool.spare_bytes(), 0U);
  begin();
  look();
  EXPECT_EQ(spool.spare_bytes(), 0U);
}

TEST_F(AbstentionTest, IsOverWithTheCoordinator) {
  const test::FullDisk full(100'000);
  begin();
  look();
  ASSERT_FALSE(over_);
  region_.ending_.finish({130, "interrupted"});
  look();
  EXPECT_TRUE(over_);
}

TEST_F(AbstentionTest, NamesTheRoomThatItsPayloadTakes) {
  hand_over(5000);
  begin();
  EXPECT_THAT(abstention_->why(), ::testing::HasSubstr("(the next round takes 5000 bytes)"));
}

// The worker hands it over again.
TEST_F(AbstentionTest, NamesTheRoomThatAPayloadTakesWhichFoundNone) {
  region_.directory_.spool().put(std::vector<std::byte>(1U << 20));
  hand_over(3U << 20);
  ASSERT_FALSE(region_.driver_->protocol().contribution());
  begin();
  EXPECT_THAT(abstention_->why(), ::testing::HasSubstr("(the next round takes 3145728 bytes)"));
}

TEST_F(AbstentionTest, WaitsForRoomForTheNextRound) {
  contribute(std::uint64_t{1} << 60);
  begin();
  look();
  EXPECT_FALSE(over_);
}

// Once it is back, what is not needed any more may leave the disk.
TEST_F(AbstentionTest, DoesNotWaitForRoomForEver) {
  contribute(std::uint64_t{1} << 60);
  pace_.try_anyway_after = milliseconds{0};
  begin();
  look();
  EXPECT_TRUE(over_);
}

TEST_F(AbstentionTest, ShowsWhatItDoesMeanwhile) {
  status_.waiting = "room";
  const test::FullDisk full(100'000);
  begin();
  look();
  EXPECT_THAT(shown(), ::testing::HasSubstr("\"waiting\": \"room\""));
}

// Not even a socket can be opened, or a file.
TEST_F(AbstentionTest, ShowsItWithoutAnotherDescriptorAndTriesAgain) {
  status_.waiting = "descriptors";
  run(worker_.stop());  // so that none is free again
  begin();
  {
    const test::NoMoreFiles none;
    look();
    EXPECT_FALSE(over_);
  }
  EXPECT_THAT(shown(), ::testing::HasSubstr("\"waiting\": \"descriptors\""));
  look();
  EXPECT_TRUE(over_);
  EXPECT_FALSE(failure_);
  EXPECT_TRUE(std::filesystem::is_socket(region_.options_.directory / "worker.sock"));
}

TEST_F(AbstentionTest, EndsWithWhatNoRoomMends) {
  region_.options_.directory /= "nowhere";
  begin();
  look();
  EXPECT_TRUE(over_);
  EXPECT_TRUE(failure_);
}

}  // namespace
}  // namespace causeway::diloco::testing
