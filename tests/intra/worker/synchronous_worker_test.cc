#include "intra/worker/run_worker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/tiny_options.h"
#include "tests/intra/temporary_directory.h"
#include "tests/support/process_limits.h"

namespace causeway::intra {
namespace {

constexpr std::uint64_t kSteps = 10;

const std::function<bool()> kGoesOn = [] { return false; };

WorkerOptions options_of(const TemporaryDirectory& directory, std::size_t region,
                         std::size_t regions, float dropout) {
  WorkerOptions options = tiny_options(directory);
  options.region.append("r").append(std::to_string(region));
  options.region_index = region;
  options.region_count = regions;
  options.model.dropout = dropout;
  options.train.steps = kSteps;
  options.directory = directory.path() / options.region;
  return options;
}

// Regions "r0", "r1", ... of `world` ranks each, all in one group; the results by rank of the
// group.
std::vector<WorkerResult> run_group(const TemporaryDirectory& directory, std::size_t regions,
                                    std::uint32_t world, const std::string& generation = "test",
                                    float dropout = 0) {
  std::vector<WorkerOptions> options;
  for (std::size_t region = 0; region < regions; ++region) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      WorkerOptions one = options_of(directory, region, regions, dropout);
      one.rank = rank;
      one.world = world;
      one.synchronous = {options.size(), regions * world, generation};
      options.push_back(one);
    }
  }
  std::vector<std::future<WorkerResult>> running;
  for (const WorkerOptions& one : options) {
    running.push_back(std::async(std::launch::async, [&] {
      omp_set_num_threads(1);  // there are more ranks than cores
      return run_synchronous(one, kGoesOn);
    }));
  }
  std::vector<WorkerResult> results;
  for (auto& result : running) results.push_back(result.get());
  return results;
}

WorkerResult run_for_all(const TemporaryDirectory& directory, std::size_t regions, float dropout,
                         std::uint32_t world = 1) {
  WorkerOptions options = options_of(directory, 0, regions, dropout);
  options.world = world;
  options.synchronous = {0, 1, "all"};
  return run_synchronous(options, kGoesOn);
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

// Other samples, or another dropout mask, change the loss by far more than the order of a sum does.
TEST(SynchronousWorker, OneProcessComputesWhatAllRegionsWould) {
  const TemporaryDirectory directory;
  for (const float dropout : {0.0F, 0.3F}) {
    const auto group = run_group(directory, 3, 1, fmt::format("of-{}", dropout), dropout);
    const WorkerResult one = run_for_all(directory, 3, dropout);
    EXPECT_NEAR(*one.val_loss(), *group[0].val_loss(), 1e-5);
    EXPECT_EQ(one.progress.tokens(), 3 * group[0].progress.tokens());
    const auto other = run_for_all(directory, 2, dropout);
    EXPECT_GT(std::abs(*other.val_loss() - *one.val_loss()), 1e-3);
  }
}

// The ranks that it stands for may be of one region.
TEST(SynchronousWorker, OneProcessComputesWhatAllRanksWould) {
  const TemporaryDirectory directory;
  for (const std::size_t regions : {1U, 2U}) {
    const auto group = run_group(directory, regions, 3, fmt::format("of-{}", regions));
    const WorkerResult one = run_for_all(directory, regions, 0, 3);
    EXPECT_NEAR(*one.val_loss(), *group[0].val_loss(), 1e-5);
    EXPECT_NEAR(one.progress.loss(), group[0].progress.loss(), 1e-4);
  }
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

TEST(SynchronousWorker, ADiskThatTakesNoStatusEndsNothing) {
  const TemporaryDirectory directory;
  WorkerOptions options = options_of(directory, 0, 1, 0);
  options.synchronous = {0, 1, "full"};
  std::optional<test::FullDisk> full(1);
  std::uint64_t steps = 0;
  const auto make_room = [&] {
    if (++steps == kSteps) full.reset();
    return false;
  };
  EXPECT_EQ(run_synchronous(options, make_room).progress.step(), kSteps);
  EXPECT_FALSE(full);
}

}  // namespace
}  // namespace causeway::intra
