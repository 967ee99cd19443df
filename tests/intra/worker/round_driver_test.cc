// What a region makes of its coordinator's instructions, whoever trains: seen through the worker
// API.
#include "intra/worker/round_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>

#include "diloco/files/error.h"
#include "intra/worker/worker.h"
#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/scripted_coordinator.h"

namespace causeway {
namespace {

TEST(RoundDriver, ARecordOfAnotherRunIsRefused) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all("another")});
  std::vector<float> params = kInitial;
  Worker worker(settings(directory), params);
  take_steps(worker, params, 0);
  try {
    worker.next(params);
    ADD_FAILURE() << "it followed another run";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), diloco::Errc::lineage);
    EXPECT_THAT(error.what(), testing::HasSubstr("run another"));
  }
}

TEST(RoundDriver, FreshWeightsBelongToNoRunBeforeTheyAreUsed) {
  const intra::TemporaryDirectory directory;
  auto first = std::make_unique<Coordinator>(directory.path());
  std::vector<float> params = kInitial;
  Worker worker(settings(directory), params);
  first.reset();  // before it said what to do
  Coordinator second(directory.path());
  second.follow({train(0), second.apply_all(), finish(1)});
  take_steps(worker, params, 0);
  EXPECT_FALSE(worker.next(params));
  ASSERT_EQ(second.requests().size(), 1);
  EXPECT_FALSE(second.requests()[0].has_lineage);
}

TEST(RoundDriver, StartsOverWhenToldToBeforeThereIsASnapshot) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  const auto nothing = directory.path() / "nothing";
  std::ofstream(nothing).flush();
  const auto start_over = [&](diloco::WorkerServer& server) { server.restore(0, {}, nothing, 0); };
  coordinator.follow({train(0), coordinator.apply_all(), start_over, train(0),
                      coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial;
  Worker worker(settings(directory), params);
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(worker.next(params));
    EXPECT_EQ(params, kInitial);
    add(params, 0.5F);
    worker.done(params, 4, 0);
  }
  std::vector<float> result(kInitial.size());
  EXPECT_FALSE(worker.next(result));
  EXPECT_EQ(result, params);
}

TEST(RoundDriver, StepsWhileCutOffThatAreNotFiniteAreDropped) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow(
      {train(0), go_on(0, 40), go_on(0, 40), collect(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial, result(kInitial.size());
  Worker worker(settings(directory), params);
  take_steps(worker, params, 0.5F);
  const std::vector<float> contributed = params;
  take_steps(worker, params, NAN);
  ASSERT_TRUE(worker.next(params));
  EXPECT_EQ(params, contributed);
  add(params, 0.5F);
  worker.done(params, 2, 0);
  EXPECT_FALSE(worker.next(result));
  EXPECT_EQ(result, params);
  ASSERT_EQ(coordinator.contributions().size(), 2);
  EXPECT_EQ(coordinator.contributions()[1].steps, 2);
}

TEST(RoundDriver, ItsProgressIsTheRegionsAndGoesOnAfterARestart) {
  const intra::TemporaryDirectory directory;
  std::vector<float> params = kInitial;
  for (const std::uint64_t round : {0, 1}) {
    Coordinator coordinator(directory.path());
    coordinator.follow({train(round, 40 * round), coordinator.apply_all(), finish(round + 1)});
    Worker worker(settings(directory), kInitial);
    take_steps(worker, params, 0);
    EXPECT_FALSE(worker.next(params));
    while (coordinator.reports().empty() || coordinator.reports().back().phase() != "done")
      std::this_thread::yield();
    const diloco::Progress last = coordinator.reports().back();
    EXPECT_EQ(last.tokens(), 400 * (round + 1));
    EXPECT_GT(last.memory_peak_bytes(), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "compression.jsonl"));
}

class RoundDriverAhead : public testing::TestWithParam<const char*> {};

// The region is alone and its whole contribution is listed: what is learnt adds up in every
// variant.
TEST_P(RoundDriverAhead, StepsAreTakenWhileTheRoundIsDecided) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(
      directory.path(), std::string("sync.variant = \"") + GetParam() + "\"\nsync.mixing = 0.0\n");
  const auto train_ahead = [](diloco::Round round, std::uint32_t ahead) {
    return [=](diloco::WorkerServer& server) {
      server.train({round, 4, 40 * round, 4 * round, {}, ahead});
    };
  };
  coordinator.follow({train_ahead(0, 2), coordinator.apply_all(), train_ahead(1, 0),
                      coordinator.apply_all(), finish(2)});
  std::vector<float> params = kInitial, result(kInitial.size());
  Worker worker(settings(directory), params);
  std::vector<std::uint32_t> counts;
  std::vector<std::uint64_t> first_samples, schedule_steps;
  while (const auto steps = worker.next(params)) {
    counts.push_back(steps->count);
    first_samples.push_back(steps->first_sample);
    schedule_steps.push_back(steps->schedule_step);
    EXPECT_FALSE(worker.called_back());
    add(params, 0.25F * static_cast<float>(steps->count));
    worker.done(params, steps->count, 0);
  }
  EXPECT_THAT(counts, testing::ElementsAre(4, 2, 2));
  EXPECT_THAT(first_samples, testing::ElementsAre(0, 40, 60));
  EXPECT_THAT(schedule_steps, testing::ElementsAre(0, 4, 6));
  result = kInitial;
  add(result, 2.0F);
  EXPECT_EQ(params, result);
  ASSERT_EQ(coordinator.contributions().size(), 2);
  EXPECT_EQ(coordinator.contributions()[1].steps, 4);
}

INSTANTIATE_TEST_SUITE_P(Variants, RoundDriverAhead,
                         testing::Values("streaming", "delayed", "eager"));

}  // namespace
}  // namespace causeway
