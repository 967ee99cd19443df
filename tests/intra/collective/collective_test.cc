// The conformance suite over Gloo, and what Gloo must do when a rank fails.
#include "intra/collective/collective.h"

#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "tests/intra/collective/collective_conformance.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

using std::chrono::milliseconds;

INSTANTIATE_TEST_SUITE_P(OnCpu, CollectiveConformance,
                         testing::Values(CollectiveUnderTest{.name = "Solo", .world = 1},
                                         CollectiveUnderTest{.name = "Gloo", .world = 2},
                                         CollectiveUnderTest{.name = "Gloo", .world = 3}),
                         name_of);

TEST(GlooCollective, TellsWhoDidNotCome) {
  const TemporaryDirectory directory;
  expect_refusal(Errc::collective, {"forming the group", "rank 0 of 2", "rank 1 did not come"},
                 [&] {
                   make_collective({directory.path(), "test", 0, 2, milliseconds(10)});
                 });
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

// Its deadline is an hour: the test ends because the group is given up.
void expect_given_up(const TemporaryDirectory& directory) {
  std::atomic<int> looks = 0;
  expect_refusal(Errc::collective, {"forming the group", "rank 0 of 2", "it was given up"}, [&] {
    make_collective({.directory = directory.path(),
                     .generation = "test",
                     .rank = 0,
                     .world = 2,
                     .deadline = std::chrono::hours(1),
                     .given_up = [&] { return ++looks > 1; }});
  });
}

TEST(GlooCollective, IsGivenUpWhileARankHasNotCome) {
  const TemporaryDirectory directory;
  expect_given_up(directory);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(GlooCollective, IsGivenUpWhenARankCameAndLeftNoAddress) {
  const TemporaryDirectory directory;
  gloo::rendezvous::FileStore files(directory.path());
  gloo::rendezvous::PrefixStore("test", files).set("here1", {'1'});
  expect_given_up(directory);
}

// The rank's address is higher than ours, so that it is the one to connect.
TEST(GlooCollective, IsGivenUpWhenARankLeftAnAddressAndDoesNotConnect) {
  const TemporaryDirectory directory;
  gloo::rendezvous::FileStore files(directory.path());
  gloo::rendezvous::PrefixStore book("test", files);
  const auto other = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.2"))
                         ->createContext(1, 2);
  book.set("here1", {'1'});
  book.set("rank_1", {'h'});
  book.set("1", other->createPair(0)->address().bytes());
  expect_given_up(directory);
}

TEST(GlooCollective, GenerationsDoNotMix) {
  const TemporaryDirectory directory;
  std::thread other([&] {
    expect_refusal(Errc::collective, {"group 'second'", "rank 0 did not come"}, [&] {
      make_collective({directory.path(), "second", 1, 2, milliseconds(10)});
    });
  });
  expect_refusal(Errc::collective, {"group 'first'", "rank 1 did not come"}, [&] {
    make_collective({directory.path(), "first", 0, 2, milliseconds(10)});
  });
  other.join();
}

TEST(GlooCollective, FailsOnEveryRankOnceOneLeft) {
  const TemporaryDirectory directory;
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto group = make_collective({directory.path(), "test", rank, 3});
      if (rank == 2) return;
      std::vector<float> values(100'000, 1);
      const std::string self = "rank " + std::to_string(rank) + " of 3";
      expect_refusal(Errc::collective, {"all-reduce", self, "group 'test'"},
                     [&] { group->all_reduce_sum(values); });
      expect_refusal(Errc::collective, {"barrier", self, "form a new one"},
                     [&] { group->barrier(); });
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Ranks as processes, so that one can be stopped or killed. Each child exits 0 if `body` returns
// true.
class Processes {
 public:
  void start(std::size_t count, const std::function<bool(std::size_t)>& body) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) _exit(body(rank) ? 0 : 1);
      children_.push_back(child);
    }
  }
  ~Processes() {
    for (const pid_t child : children_) {
      if (child == kReaped) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  // The wait status of a child that ended.
  int wait(std::size_t rank) {
    int status = -1;
    waitpid(children_[rank], &status, 0);
    children_[rank] = kReaped;
    return status;
  }

 private:
  static constexpr pid_t kReaped = 0;
  std::vector<pid_t> children_;
};

// True if `action` fails with Errc::collective.
bool fails(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error.code() == Errc::collective;
  }
  return false;
}

// Rank 2 of 3 gets `signal` in the middle of training; the others must notice while they repeat
// `operation`.
void expect_failure_after(int signal, milliseconds deadline,
                          const std::function<void(Collective&)>& operation) {
  const TemporaryDirectory directory;
  Processes processes;
  processes.start(3, [&](std::size_t rank) {
    const auto group = make_collective({directory.path(), "test", rank, 3, deadline});
    operation(*group);
    if (rank == 2) raise(signal);
    return fails([&] {
      for (;;) operation(*group);
    });
  });
  for (const std::size_t survivor : {0, 1}) {
    const int status = processes.wait(survivor);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  }
}

void sum_much(Collective& group) {
  std::vector<float> values(200'000, 1);
  group.all_reduce_sum(values);
}

// The root waits for nobody, so that it writes to a rank that is gone: no SIGPIPE may kill it.
void broadcast_little(Collective& group) {
  std::byte byte{};
  group.broadcast({&byte, 1}, 0);
}

TEST(GlooCollective, FailsWhenARankIsKilled) {
  expect_failure_after(SIGKILL, milliseconds(60'000), sum_much);
  expect_failure_after(SIGKILL, milliseconds(60'000), broadcast_little);
}

// Rank 1 of 2 is killed when some of `root`'s message has arrived. There is no deadline to speak
// of: rank 0 must notice.
void expect_failure_in_a_message_of(std::size_t root) {
  constexpr std::size_t kBytes = 256 << 20;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> arriving(static_cast<std::byte*>(memory), kBytes);
  const TemporaryDirectory directory;
  Processes processes;
  processes.start(2, [&](std::size_t rank) {
    const auto group = make_collective({directory.path(), "test", rank, 2, std::chrono::hours(1)});
    std::vector<std::byte> sent(rank == root ? kBytes : 0, std::byte{1});
    const std::jthread end([&] {
      while (rank == 1 && std::atomic_ref(arriving[0]).load() == std::byte{})
        std::this_thread::yield();
      if (rank == 1) raise(SIGKILL);
    });
    return fails([&] {
      for (;;) group->broadcast(rank == root ? std::span(sent) : arriving, root);
    });
  });
  const int status = processes.wait(0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  ::munmap(memory, kBytes);
}

TEST(GlooCollective, FailsWhenARankIsKilledInTheMiddleOfAMessage) {
  expect_failure_in_a_message_of(0);
  expect_failure_in_a_message_of(1);
}

TEST(GlooCollective, FailsAtTheDeadlineWhenARankHangs) {
  expect_failure_after(SIGSTOP, milliseconds(2'000), sum_much);
}

}  // namespace
}  // namespace causeway::intra
