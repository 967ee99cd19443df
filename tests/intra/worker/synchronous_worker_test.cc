#include "intra/worker/run_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/tiny_options.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

constexpr std::uint64_t kSteps = 10;

// Regions "r0", "r1", ... of `world` ranks each, all in one group; the results by rank of the
// group.
std::vector<WorkerResult> run_group(const TemporaryDirectory& directory, std::size_t regions,
                                    std::uint32_t world, const std::string& generation = "test") {
  std::vector<WorkerOptions> options;
  for (std::size_t region = 0; region < regions; ++region) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      WorkerOptions one = tiny_options(directory);
      one.region.append("r").append(std::to_string(region));
      one.region_index = region;
      one.region_count = regions;
      one.rank = rank;
      one.world = world;
      one.train.steps = kSteps;
      one.directory = directory.path() / one.region;
      one.synchronous = {options.size(), regions * world, generation};
      options.push_back(one);
    }
  }
  const std::function<bool()> never = [] { return false; };
  std::vector<std::future<WorkerResult>> running;
  for (const WorkerOptions& one : options) {
    running.push_back(std::async(std::launch::async, [&] {
      omp_set_num_threads(1);  // there are more ranks than cores
      return run_synchronous(one, never);
    }));
  }
  std::vector<WorkerResult> results;
  for (auto& result : running) results.push_back(result.get());
  return results;
}

TEST(SynchronousWorker, RegionsStayEqualAndEachLeavesItsResult) {
  const TemporaryDirectory directory;
  const auto results = run_group(directory, 2, 1);
  EXPECT_EQ(results[0].params_digest, results[1].params_digest);
  EXPECT_LT(results[0].val_loss(), 5.4);
  EXPECT_EQ(results[0].progress.step(), kSteps);
  EXPECT_EQ(results[0].progress.tokens(), kSteps * 6 * 8);
  for (const char* region : {"r0", "r1"}) {
    std::ifstream file(directory.path() / region / "result.json");
    EXPECT_EQ(nlohmann::json::parse(file).at("params_digest"), results[0].params_digest);
    std::ifstream status(directory.path() / region / "status.json");
    EXPECT_EQ(nlohmann::json::parse(status).at("progress").at("step"), kSteps);
    EXPECT_TRUE(std::filesystem::exists(directory.path() / region / "checkpoints/final"));
  }
}

TEST(SynchronousWorker, SplittingTheBatchOverRanksChangesLittle) {
  const TemporaryDirectory directory;
  const auto alone = run_group(directory, 1, 1), shared = run_group(directory, 1, 3, "shared");
  EXPECT_NEAR(*alone[0].val_loss(), *shared[0].val_loss(), 1e-4);
}

TEST(SynchronousWorker, ASecondRegionBringsOtherSamples) {
  const TemporaryDirectory directory;
  const auto one = run_group(directory, 1, 1), two = run_group(directory, 2, 1, "two");
  EXPECT_NE(one[0].params_digest, two[0].params_digest);
}

TEST(SynchronousWorker, StopsWhenInterrupted) {
  const TemporaryDirectory directory;
  WorkerOptions options = tiny_options(directory);
  options.train.steps = kSteps;
  options.directory = directory.path() / "r0";
  options.synchronous = {0, 1, "test"};
  expect_refusal(Errc::interrupted, {"starts over"},
                 [&] { run_synchronous(options, [] { return true; }); });
  EXPECT_FALSE(std::filesystem::exists(options.directory / "result.json"));
}

}  // namespace
}  // namespace causeway::intra
