#include "apps/run/tune/side_by_side.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <barrier>
#include <stdexcept>

namespace causeway::run {
namespace {

using Tasks = std::vector<std::function<void()>>;

TEST(SideBySide, EveryTaskRunsOnce) {
  std::vector<std::atomic<int>> runs(20);
  Tasks tasks;
  for (auto& one : runs) tasks.emplace_back([&] { ++one; });
  run_side_by_side(3, tasks);
  for (const auto& one : runs) EXPECT_EQ(one, 1);
  run_side_by_side(3, {});
}

TEST(SideBySide, AsManyAsWereAskedForRunAtOnceWithTheirShareOfTheThreads) {
  const int threads = omp_get_max_threads();
  std::barrier meeting(3);  // whoever ran alone would wait for ever
  std::atomic<int> most = 0;
  run_side_by_side(3, Tasks(3, [&] {
                     meeting.arrive_and_wait();
                     most = std::max<int>(most, omp_get_max_threads());
                   }));
  EXPECT_EQ(most, std::max(1, threads / 3));
  EXPECT_EQ(omp_get_max_threads(), threads);
}

TEST(SideBySide, AfterAnErrorNoOtherTaskBegins) {
  int begun = 0;
  Tasks tasks(5, [&] { ++begun; });
  tasks[1] = [] { throw std::runtime_error("no data"); };
  EXPECT_THROW(run_side_by_side(1, tasks), std::runtime_error);
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace causeway::run
