#include "apps/run/simulate/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "intra/step/memory_need.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

constexpr std::uint64_t kGibi = 1ULL << 30;

intra::HostMemory host(std::uint64_t available_bytes) {
  return {.total_bytes = 24 * kGibi, .available_bytes = available_bytes, .limit = {}};
}

TEST(SimulationMemory, IsThatOfAllWorkersAndCoordinators) {
  const Config config = load_text(kSmallConfig + "workers = 2\n");
  std::uint64_t sum = 2 * intra::kProgramBytes;
  for (const char* region : {"east", "west", "west"})
    sum += intra::held_bytes(intra::memory_need(worker_options(config, region, 0, ".")));
  EXPECT_EQ(simulation_bytes(config, false), sum);
}

// It runs after the regions, and its workers have neither anchor nor payload.
TEST(SimulationMemory, OfTheBaselineIsNotAdded) {
  const Config config = load_text(kSmallConfig);
  EXPECT_EQ(simulation_bytes(config, true), simulation_bytes(config, false));
}

TEST(SimulationMemory, ThatTheHostHasIsNoProblem) {
  const Config config = load_text(kSmallConfig);
  EXPECT_NO_THROW(check_memory(config, true, host(simulation_bytes(config, true))));
  EXPECT_NO_THROW(check_memory(config, true, {})) << "a host that does not say";
}

TEST(SimulationMemory, ThatTheHostDoesNotHaveIsRefusedWithBothFigures) {
  const Config config = load_text(kSmallConfig);
  const std::uint64_t needed = simulation_bytes(config, true);
  try {
    check_memory(config, true, host(needed - 1));
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("needs up to " + intra::in_mib(needed)));
    EXPECT_THAT(error.what(), testing::HasSubstr("2 workers, 2 coordinators"));
    EXPECT_THAT(error.what(), testing::HasSubstr("free of 24,576 MiB"));
    EXPECT_THAT(error.what(), testing::HasSubstr("take fewer regions or workers"));
  }
}

TEST(SimulationMemory, OfAControlGroupIsSaidToBeIts) {
  intra::HostMemory memory = host(1);
  memory.limit = "/sys/fs/cgroup/job";
  try {
    check_memory(load_text(kSmallConfig), true, memory);
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the control group /sys/fs/cgroup/job has"));
  }
}

}  // namespace
}  // namespace causeway::run
