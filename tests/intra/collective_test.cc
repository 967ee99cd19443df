// What every Collective must do, for every implementation and size; and what Gloo must do when a
// rank fails.
#include "intra/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

using std::chrono::milliseconds;

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A value that differs between ranks and elements and is not exact in float.
float value(std::size_t rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 7 + rank)) * static_cast<float>(rank + 1);
}

class CollectiveConformance : public testing::TestWithParam<std::size_t> {
 protected:
  std::size_t world() const { return GetParam(); }

  // Runs `body` on every rank, each in its own thread with its own group member.
  void on_every_rank(const std::function<void(Collective&)>& body) {
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < world(); ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          const auto group = make_collective({directory_.path(), "test", rank, world()});
          body(*group);
          group->barrier();
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }

  TemporaryDirectory directory_;
};

TEST_P(CollectiveConformance, KnowsRankAndSize) {
  std::vector<int> seen(world());
  on_every_rank([&](Collective& group) {
    EXPECT_EQ(group.size(), world());
    ++seen[group.rank()];
  });
  EXPECT_EQ(seen, std::vector<int>(world(), 1));
}

TEST_P(CollectiveConformance, SumsOverTheRanksWithTheSameBitsEverywhere) {
  for (const std::size_t count : {1, 2, 3, 5, 4097, 1'000'003}) {
    std::vector<std::vector<float>> results(world());
    on_every_rank([&](Collective& group) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = value(group.rank(), i);
      group.all_reduce_sum(values);
      results[group.rank()] = std::move(values);
    });
    for (std::size_t i = 0; i < count; i += 1 + count / 1000) {
      double expected = 0;
      for (std::size_t rank = 0; rank < world(); ++rank) expected += value(rank, i);
      ASSERT_NEAR(results[0][i], expected, 1e-6) << count << " elements, at " << i;
    }
    for (const std::vector<float>& result : results) {
      EXPECT_EQ(std::memcmp(result.data(), results[0].data(), count * sizeof(float)), 0);
    }
  }
}

TEST_P(CollectiveConformance, BroadcastsFromAnyRoot) {
  on_every_rank([&](Collective& group) {
    for (std::size_t root = 0; root < world(); ++root) {
      std::vector<std::byte> bytes = to_bytes("0 says so");
      bytes[0] = static_cast<std::byte>('0' + group.rank());
      group.broadcast(bytes, root);
      EXPECT_EQ(bytes, to_bytes(std::to_string(root) + " says so"));
    }
  });
}

TEST_P(CollectiveConformance, GathersInRankOrder) {
  on_every_rank([&](Collective& group) {
    const auto parts = group.all_gather(to_bytes(std::to_string(group.rank())));
    ASSERT_EQ(parts.size(), world());
    for (std::size_t rank = 0; rank < world(); ++rank) {
      EXPECT_EQ(parts[rank], to_bytes(std::to_string(rank)));
    }
  });
}

TEST_P(CollectiveConformance, GathersPartsOfDifferentSizes) {
  on_every_rank([&](Collective& group) {
    // Every rank in turn has nothing, a byte, or much.
    for (const std::size_t turn : {0, 1, 2}) {
      const auto size = [&](std::size_t rank) {
        return std::array<std::size_t, 3>{0, 1, 3'000'001}[(rank + turn) % 3];
      };
      const auto part = [&](std::size_t rank) {
        return std::vector<std::byte>(size(rank), static_cast<std::byte>(rank + 1));
      };
      const auto parts = group.all_gather(part(group.rank()));
      ASSERT_EQ(parts.size(), world());
      for (std::size_t rank = 0; rank < world(); ++rank) EXPECT_EQ(parts[rank], part(rank));
    }
  });
}

TEST_P(CollectiveConformance, AcceptsEmptySpans) {
  on_every_rank([&](Collective& group) {
    group.all_reduce_sum({});
    group.broadcast({}, world() - 1);
    EXPECT_EQ(group.all_gather({}), std::vector<std::vector<std::byte>>(world()));
  });
}

TEST_P(CollectiveConformance, BarrierWaitsForTheLast) {
  std::atomic<std::size_t> arrived = 0;
  on_every_rank([&](Collective& group) {
    for (std::size_t turn = 1; turn <= 20; ++turn) {
      ++arrived;
      group.barrier();
      EXPECT_GE(arrived, turn * world());
    }
  });
}

TEST_P(CollectiveConformance, KeepsOperationsInOrder) {
  // Nobody waits between operations, so that a fast rank is several ahead of a slow one.
  on_every_rank([&](Collective& group) {
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<float> values(10, static_cast<float>(turn));
      group.all_reduce_sum(values);
      EXPECT_EQ(values, std::vector<float>(10, static_cast<float>(turn * world())));
      auto bytes = std::as_writable_bytes(std::span(values));
      group.broadcast(bytes, static_cast<std::size_t>(turn) % world());
      EXPECT_EQ(group.all_gather(bytes).back(),
                (std::vector<std::byte>(bytes.begin(), bytes.end())));
    }
  });
}

TEST_P(CollectiveConformance, LeavesNothingInTheDirectory) {
  on_every_rank([](Collective&) {});
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

INSTANTIATE_TEST_SUITE_P(Solo, CollectiveConformance, testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Gloo, CollectiveConformance, testing::Values(2, 3));

TEST(GlooCollective, TellsWhoDidNotCome) {
  const TemporaryDirectory directory;
  expect_refusal(Errc::collective, {"forming the group", "rank 0 of 2", "rank 1 did not come"},
                 [&] {
                   make_collective({directory.path(), "test", 0, 2, milliseconds(10)});
                 });
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
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

TEST(GlooCollective, FailsAtTheDeadlineWhenARankHangs) {
  expect_failure_after(SIGSTOP, milliseconds(2'000), sum_much);
}

}  // namespace
}  // namespace causeway::intra
