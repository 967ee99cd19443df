#include "intra/worker/region_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "intra/published/checkpoint.h"
#include "intra/worker/run_worker.h"
#include "tests/intra/worker/region_under_test.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

TEST(RegionWorker, TrainsToTheEndAndLeavesItsResult) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  std::vector<std::uint64_t> steps;
  std::set<std::string> phases;
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    phases.insert(progress.phase());
    if (steps.empty() || progress.step() != steps.back()) steps.push_back(progress.step());
  };
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.start();
  const WorkerResult result = eu.finished();
  EXPECT_EQ(result.progress.step(), kRounds * kSteps);
  EXPECT_EQ(result.progress.round(), kRounds);
  EXPECT_EQ(result.progress.tokens(), kRounds * kSteps * 6 * 8);
  EXPECT_GT(result.progress.compute_s(), 0);
  EXPECT_GT(result.progress.wait_s(), 0);
  EXPECT_LT(result.val_loss(), 5.4) << "a model that knows nothing has ln 256 = 5.55";
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(phases,
              testing::ElementsAre("apply", "compute", "done", "encode", "evaluate", "wait"));

  std::ifstream file(eu.options().directory / "result.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json.at("params_digest"), result.params_digest);
  EXPECT_EQ(json.at("steps"), result.progress.step());
  EXPECT_EQ(json.at("val_loss"), *result.val_loss());
  const LoadedModel model = load_model(eu.options().directory / "checkpoints/final");
  EXPECT_EQ(diloco::to_hex(diloco::merkle_root(diloco::merkle_leaves(model.params))),
            result.params_digest);
}

TEST(RegionWorker, RegionsOfOneTwoAndThreeRanksEndWithTheSameBits) {
  const TemporaryDirectory directory;
  FakeRun run({"ap", "eu", "us"}, kRounds, kSteps);
  RegionUnderTest ap(run, directory, "ap", 0, 3, 1), eu(run, directory, "eu", 1, 3, 2),
      us(run, directory, "us", 2, 3, 3);
  for (auto* region : {&ap, &eu, &us}) region->start();
  const WorkerResult first = ap.finished();
  for (auto* region : {&ap, &eu, &us}) {
    const WorkerResult result = region->finished();
    EXPECT_EQ(result.params_digest, first.params_digest);
    EXPECT_EQ(result.val_loss(), first.val_loss());
    EXPECT_EQ(result.progress.tokens(), first.progress.tokens());
  }
  EXPECT_EQ(run.states().size(), kRounds + 1);
}

// With one region, eta = 1 and no momentum an outer round changes nothing but roundings.
TEST(RegionWorker, OneRoundOfOneRegionIsPlainTraining) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, 1, kRounds * kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.options().outer = {diloco::OuterOptions::Kind::sgd, 1.0F, 0.0F};
  eu.options().codec.matrix = eu.options().codec.vector = "dense:fp32";
  eu.options().train.k = kRounds * kSteps;
  WorkerOptions plain = eu.options();
  plain.directory = directory.path() / "plain";
  plain.synchronous = {0, 1, "plain"};
  eu.start();
  EXPECT_EQ(eu.finished().progress.step(), kRounds * kSteps);
  run_synchronous(plain, [] { return false; });
  const LoadedModel by_round = load_model(eu.options().directory / "checkpoints/final");
  const LoadedModel by_steps = load_model(plain.directory / "checkpoints/final");
  EXPECT_THAT(by_round.params, testing::Pointwise(testing::FloatNear(1e-6F), by_steps.params));
}

// Rounded weights follow the parameters through steps and rounds: a worker that reads them from
// disk between two rounds goes on with the same bits.
TEST(RegionWorker, InBf16ItTrainsOnFromWhereARoundPutTheParameters) {
  const auto end_of_run = [](bool killed) {
    const TemporaryDirectory directory;
    FakeRun run({"eu"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 1);
    eu.options().model.precision = ModelOptions::Precision::bf16;
    run.on_report = [&](const std::string&, const diloco::Progress& progress) {
      if (killed && progress.round() == 2) eu.kill();
    };
    eu.start();
    if (killed) {
      eu.expect_killed();
      run.on_report = {};
      eu.start();
    }
    return eu.finished().params_digest;
  };
  const std::string digest = end_of_run(false);
  EXPECT_NE(digest, undisturbed_alone());
  EXPECT_EQ(end_of_run(true), digest);
}

// ---- Ctrl-C ----

class Interrupted : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Interrupted, ResumesExactlyWhereItStopped) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  std::vector<std::uint64_t> steps;
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (steps.empty() || progress.step() != steps.back()) steps.push_back(progress.step());
    if (progress.step() == GetParam()) eu.interrupt();
  };
  eu.start();
  eu.expect_interrupted();
  EXPECT_LE(steps.back(), GetParam() + 1) << "the step in progress may end, no other";
  const std::uint64_t stopped = steps.back();
  eu.interrupt(false);
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    EXPECT_GE(progress.step(), stopped) << "no step is taken twice";
  };
  eu.start();
  const WorkerResult result = eu.finished();
  EXPECT_EQ(result.params_digest, undisturbed_alone());
  EXPECT_EQ(result.progress.step(), kRounds * kSteps);
}

INSTANTIATE_TEST_SUITE_P(AtStep, Interrupted, testing::Values(0, 1, 5, 8, 11));

TEST(RegionWorker, InterruptedWhileItsContributionIsOpenItResumesWithIt) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (progress.phase() == "wait" && progress.step() == kSteps) eu.interrupt();
  };
  eu.start();
  eu.expect_interrupted();
  run.on_report = nullptr;
  eu.interrupt(false);
  eu.start();
  us.start();
  EXPECT_EQ(eu.finished().params_digest, undisturbed_pair().eu);
  EXPECT_EQ(us.finished().params_digest, undisturbed_pair().eu);
  std::vector<bool> contributed;  // as eu attached
  for (const auto& request : run.requests()) {
    if (request.region == "eu") contributed.push_back(request.contributed);
  }
  EXPECT_THAT(contributed, testing::ElementsAre(false, true));
}

TEST(RegionWorker, InterruptingOneRankStopsAll) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1, 2);
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (progress.step() == 5) eu.interrupt();
  };
  eu.start();
  eu.expect_interrupted();
  run.on_report = nullptr;
  eu.interrupt(false);
  eu.start();
  EXPECT_EQ(eu.finished(0).params_digest, eu.finished(1).params_digest);
}

TEST(RegionWorker, MomentsThatWereSharedOutResumeOnAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  const auto shared_out = [](WorkerOptions& options) { options.train.shard_optimizer = true; };
  {
    RegionUnderTest two(run, directory, "eu", 0, 1, 2);
    two.set_all(shared_out);
    run.on_report = [&](const std::string&, const diloco::Progress& progress) {
      if (progress.step() == 5) two.interrupt();
    };
    two.start();
    two.expect_interrupted();
    run.on_report = nullptr;
  }
  RegionUnderTest three(run, directory, "eu", 0, 1, 3);
  three.set_all(shared_out);
  three.start();
  EXPECT_EQ(three.finished(0).params_digest, three.finished(2).params_digest);
  EXPECT_EQ(three.finished().progress.step(), kRounds * kSteps);
  FakeRun alone_run({"eu"}, kRounds, kSteps);
  const TemporaryDirectory other;
  RegionUnderTest alone(alone_run, other, "eu", 0, 1);
  alone.start();
  EXPECT_NEAR(*three.finished().val_loss(), *alone.finished().val_loss(), 1e-3);
}

// ---- Failures ----

TEST(RegionWorker, TimedStepsComputeNothingButSendRealPayloads) {
  const TemporaryDirectory directory;
  const test::CapturedLog log;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, 2);
  for (auto* region : {&eu, &us}) {
    region->set_all([](WorkerOptions& options) {
      options.train.timed_step_ms = 5;
      options.data.files = {"no such file"};
    });
    region->start();
  }
  const WorkerResult result = us.finished();
  EXPECT_EQ(result.params_digest, eu.finished().params_digest);
  EXPECT_TRUE(result.timed_steps);
  EXPECT_TRUE(std::isnan(result.val_loss().value()));
  EXPECT_GE(result.progress.compute_s(), kRounds * kSteps * 0.005);
  EXPECT_TRUE(log.has("round 1 applied: step 4 of 12")) << log.text();
  EXPECT_FALSE(log.has(", loss ")) << "none is known: " << log.text();
  const auto records = run.records();
  EXPECT_NE(records.at(0).participants.at(0).payload, records.at(0).participants.at(1).payload);
  EXPECT_NE(run.states().at(0), run.states().at(1));
}

TEST(RegionWorker, RefusesABatchThatDoesNotDivide) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.options().train.micro_batches = 4;
  expect_refusal(Errc::bad_model, {"train.batch = 6", "4 micro-batches", "multiple of 4"}, [&] {
    RegionWorker(
        eu.options(), [] { return false; }, run.attach());
  });
}

}  // namespace
}  // namespace causeway::intra
