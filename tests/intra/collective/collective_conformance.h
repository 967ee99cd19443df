// What every Collective must do, for every implementation and size. A test program instantiates it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>

#include "intra/collective/collective.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {

// An implementation, in groups of `world`.
struct CollectiveUnderTest {
  using OnValues = std::function<void(std::span<float>)>;
  std::string name;
  std::size_t world = 1;
  // On the rank's own thread.
  std::function<std::unique_ptr<Collective>(const Rendezvous&)> make = make_collective;
  // Runs the operation on values where the implementation works on them, and brings them back.
  std::function<void(std::span<float>, const OnValues&)> operate =
      [](std::span<float> values, const OnValues& operation) { operation(values); };
};

inline std::string name_of(const testing::TestParamInfo<CollectiveUnderTest>& tested) {
  return tested.param.name + std::to_string(tested.param.world);
}

inline std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A value that differs between ranks and elements and is not exact in float.
inline float value(std::size_t rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 7 + rank)) * static_cast<float>(rank + 1);
}

class CollectiveConformance : public testing::TestWithParam<CollectiveUnderTest> {
 protected:
  std::size_t world() const { return GetParam().world; }

  // Runs `body` on every rank, each in its own thread with its own group member.
  void on_every_rank(const std::function<void(Collective&)>& body) {
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < world(); ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          const auto group = GetParam().make({directory_.path(), "test", rank, world()});
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
      GetParam().operate(values, [&](std::span<float> there) { group.all_reduce_sum(there); });
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

// Parts of different sizes, one of them empty.
inline std::vector<std::size_t> part_sizes(std::size_t world) {
  std::vector<std::size_t> sizes(world);
  for (std::size_t rank = 0; rank < world; ++rank) sizes[rank] = 100'003 * (rank % 3);
  return sizes;
}

inline std::size_t part_begin(std::size_t rank, std::size_t world) {
  const auto sizes = part_sizes(world);
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(rank),
                         std::size_t{0});
}

TEST_P(CollectiveConformance, SumsEveryRanksPart) {
  on_every_rank([&](Collective& group) {
    const auto sizes = part_sizes(world());
    const std::size_t begin = part_begin(group.rank(), world());
    std::vector<float> values(part_begin(world(), world()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(group.rank(), i);
    GetParam().operate(values,
                       [&](std::span<float> there) { group.reduce_scatter_sum(there, sizes); });
    for (std::size_t i = begin; i < begin + sizes[group.rank()]; i += 997) {
      double expected = 0;
      for (std::size_t rank = 0; rank < world(); ++rank) expected += value(rank, i);
      ASSERT_NEAR(values[i], expected, 1e-6) << i;
    }
  });
}

TEST_P(CollectiveConformance, GathersPartsWhereTheyBelong) {
  on_every_rank([&](Collective& group) {
    const auto sizes = part_sizes(world());
    const std::size_t begin = part_begin(group.rank(), world());
    std::vector<float> values(part_begin(world(), world()), -1);
    for (std::size_t i = begin; i < begin + sizes[group.rank()]; ++i) values[i] = value(7, i);
    GetParam().operate(values,
                       [&](std::span<float> there) { group.all_gather_parts(there, sizes); });
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], value(7, i)) << i;
  });
}

TEST_P(CollectiveConformance, ExchangesParts) {
  on_every_rank([&](Collective& group) {
    const auto sizes = part_sizes(world());
    const std::size_t all = part_begin(world(), world()), own = sizes[group.rank()];
    const std::size_t begin = part_begin(group.rank(), world());
    std::vector<float> values(all + world() * own, -1);  // what is sent, and what comes
    for (int turn = 0; turn < 2; ++turn) {
      for (std::size_t i = 0; i < all; ++i) values[i] = value(group.rank() + 10 * turn, i);
      GetParam().operate(values, [&](std::span<float> there) {
        group.exchange_parts(there.first(all), sizes, there.subspan(all));
      });
      for (std::size_t rank = 0; rank < world(); ++rank) {
        for (std::size_t i = 0; i < own; ++i)
          ASSERT_EQ(values[all + rank * own + i], value(rank + 10 * turn, begin + i)) << rank;
      }
    }
  });
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
    group.exchange_parts({}, std::vector<std::size_t>(world()), {});
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

}  // namespace causeway::intra
