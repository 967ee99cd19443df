// The worker API against a real worker socket: the test is the coordinator and gives the
// instructions.
#include "intra/worker/worker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <thread>
#include <tuple>

#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/scripted_coordinator.h"
#include "tests/support/captured_log.h"

namespace causeway {
namespace {

TEST(WorkerApi, StepsLeadToTheNextParameters) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow(
      {train(0, 70), coordinator.apply_all(), train(1, 110), coordinator.apply_all(), finish(2)});
  std::vector<float> params = kInitial;
  {
    Worker worker(settings(directory), params);
    for (const std::uint64_t round : {0, 1}) {
      const auto steps = worker.next(params);
      ASSERT_TRUE(steps);
      EXPECT_EQ(steps->round, round);
      EXPECT_EQ(steps->count, 4);
      EXPECT_EQ(steps->first_sample, 70 + 40 * round);
      EXPECT_EQ(steps->schedule_step, 4 * round);
      EXPECT_FALSE(worker.called_back());
      add(params, 0.5F);
      worker.done(params, 4, 0.1);
    }
    std::vector<float> result(kInitial.size());
    EXPECT_FALSE(worker.next(result));
    EXPECT_EQ(result, params);
  }
  const auto contributions = coordinator.contributions();
  ASSERT_EQ(contributions.size(), 2);
  EXPECT_EQ(contributions[1].data_cursor, 150);
  EXPECT_EQ(contributions[1].tokens, 400);
  EXPECT_EQ(contributions[1].steps, 4);
}

TEST(WorkerApi, WithoutTokensASampleIsOne) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial;
  WorkerSettings of_samples = settings(directory);
  of_samples.tokens_per_step = WorkerSettings{}.tokens_per_step;
  Worker worker(of_samples, params);
  take_steps(worker, params, 0.5F);
  EXPECT_FALSE(worker.next(params));
  const auto contributions = coordinator.contributions();
  ASSERT_EQ(contributions.size(), 1);
  EXPECT_EQ(contributions[0].tokens, 4 * of_samples.samples_per_step);
}

TEST(WorkerApi, WhatIsDoneWhileCutOffIsAnotherPart) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow(
      {train(0), go_on(0, 40), go_on(0, 40), collect(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial, result(kInitial.size());
  {
    Worker worker(settings(directory), params);
    const std::vector<std::uint64_t> first_samples{0, 40, 60};
    for (const std::uint64_t first_sample : first_samples) {
      const auto steps = worker.next(params);
      ASSERT_TRUE(steps);
      EXPECT_EQ(steps->first_sample, first_sample);
      add(params, 0.5F);
      worker.done(params, steps->count, 0);
    }
    EXPECT_FALSE(worker.next(result));
  }
  EXPECT_EQ(result, params);
  const auto contributions = coordinator.contributions();
  ASSERT_EQ(contributions.size(), 2);
  EXPECT_EQ(contributions[1].part, 1);
  EXPECT_EQ(contributions[1].steps, 4);
  EXPECT_EQ(contributions[1].data_cursor, 80);
  // Contributed or not, as long as it holds the version.
  EXPECT_EQ(coordinator.steps(), (std::vector<std::uint32_t>{0, 4, 6, 8, 8, 0}));
}

TEST(WorkerApi, WhatFindsNoRoomIsContributedAgain) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.refuse_next();
  coordinator.follow({train(0), train(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial, result(kInitial.size());
  {
    Worker worker(settings(directory), params);
    take_steps(worker, params, 0.5F);
    EXPECT_FALSE(worker.next(result)) << "no step is taken twice";
  }
  EXPECT_EQ(result, params);
  EXPECT_EQ(coordinator.contributions().size(), 2);
}

TEST(WorkerApi, ParametersThatAreNotFiniteSitOut) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  // Cut off afterwards, it goes on from the average, not from what it sat out with.
  coordinator.follow({train(0), go_on(0, 40), collect(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial, result(kInitial.size());
  {
    Worker worker(settings(directory), params);
    take_steps(worker, params, INFINITY);
    ASSERT_TRUE(worker.next(params));
    EXPECT_EQ(params, kInitial);
    add(params, 0.5F);
    worker.done(params, 2, 0);
    EXPECT_FALSE(worker.next(result));
  }
  EXPECT_EQ(result, params);
  const auto contributions = coordinator.contributions();
  ASSERT_EQ(contributions.size(), 2);
  EXPECT_TRUE(contributions[0].sits_out);
  EXPECT_FALSE(contributions[1].sits_out);
}

// Of which they are copies, say, or an optimizer that rebinds its arrays.
TEST(WorkerApi, StepsThatChangeNothingAreToldOnce) {
  const intra::TemporaryDirectory directory;
  const test::CapturedLog log;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all(), train(1), coordinator.apply_all(),
                      train(2), coordinator.apply_all(), finish(3)});
  const std::string told = "no parameter changed in the 4 steps of round ";
  std::vector<float> params = kInitial;
  Worker worker(settings(directory), params);
  for (const float step : {0.5F, 0.0F, 0.0F}) {
    EXPECT_FALSE(log.has(told + "0"));
    take_steps(worker, params, step);
  }
  EXPECT_FALSE(worker.next(params));
  EXPECT_EQ(log.count(told), 1U) << log.text();
  EXPECT_TRUE(log.has(told + "2")) << "the first may be without a learning rate: " << log.text();
}

TEST(WorkerApi, ALossThatIsNotKnownIsNoneAndOneThatBecomesNanIsNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto last_report = [](const std::vector<double>& losses) {
    const intra::TemporaryDirectory directory;
    Coordinator coordinator(directory.path());
    std::deque<Coordinator::Tell> tells;
    for (diloco::Round round = 0; round < losses.size(); ++round) {
      tells.push_back(train(round));
      tells.push_back(coordinator.apply_all());
    }
    tells.push_back(finish(losses.size()));
    coordinator.follow(tells);
    std::vector<float> params = kInitial;
    Worker worker(settings(directory), params);
    for (const double loss : losses) {
      EXPECT_TRUE(worker.next(params));
      add(params, 0.5F);
      worker.done(params, 4, loss);
    }
    EXPECT_FALSE(worker.next(params));
    while (coordinator.reports().empty() || coordinator.reports().back().phase() != "done")
      std::this_thread::yield();
    return coordinator.reports().back();
  };
  EXPECT_FALSE(last_report({nan}).has_loss());
  EXPECT_EQ(last_report({nan, 0.25}).loss(), 0.25);
  EXPECT_TRUE(std::isnan(last_report({0.25, nan}).loss()));
}

// Its data ran out.
TEST(WorkerApi, AProgramThatTakesNoStepsIsToldSoOnceAndAskedEverLater) {
  const intra::TemporaryDirectory directory;
  const test::CapturedLog log;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), train(0), train(0), train(0), coordinator.apply_all(), finish(1)});
  WorkerSettings asked = settings(directory);
  int waits = 0;
  asked.keep_waiting = [&](const std::string& what) {
    if (what.starts_with("the program")) ++waits;
    return true;
  };
  std::vector<float> params = kInitial;
  Worker worker(asked, params);
  for (const int waited : {0, 0, 1}) {
    ASSERT_TRUE(worker.next(params));
    EXPECT_EQ(waits, waited);
    worker.done(params, 0, 0);
  }
  ASSERT_TRUE(worker.next(params));
  EXPECT_EQ(waits, 2);
  add(params, 0.5F);
  worker.done(params, 4, 0);
  EXPECT_FALSE(worker.next(params));
  EXPECT_EQ(waits, 2) << "it takes steps";
  EXPECT_EQ(log.count("times and took none"), 1U) << log.text();
}

TEST(WorkerApi, ARestartGoesOnFromTheStateOnDisk) {
  const intra::TemporaryDirectory directory;
  std::vector<float> params = kInitial, result(kInitial.size());
  for (const std::uint64_t round : {0, 1}) {
    Coordinator coordinator(directory.path());
    coordinator.follow({train(round), coordinator.apply_all(), finish(round + 1)});
    Worker worker(settings(directory), kInitial);
    ASSERT_TRUE(worker.next(params));
    EXPECT_EQ(params[0], kInitial[0] + 0.5F * static_cast<float>(round));
    add(params, 0.5F);
    worker.done(params, 4, 0);
    EXPECT_FALSE(worker.next(result));
    EXPECT_EQ(result, params);
  }
}

TEST(WorkerApi, SurvivesACoordinatorThatRestarts) {
  const intra::TemporaryDirectory directory;
  std::vector<float> params = kInitial, result(kInitial.size());
  auto first = std::make_unique<Coordinator>(directory.path());
  first->follow({train(0)});
  Worker worker(settings(directory), params);
  ASSERT_TRUE(worker.next(params));
  add(params, 0.5F);
  first.reset();  // in the middle of the steps
  Coordinator second(directory.path());
  second.follow({train(0), second.apply_all(), finish(1)});
  worker.done(params, 4, 0);
  EXPECT_FALSE(worker.next(result));
  EXPECT_EQ(result, params) << "no step was taken twice";
}

// Only the coordinator knows, and it may be started after the program.
TEST(WorkerApi, ARunThatWasMadeLongerGoesOnWhicheverIsStartedFirst) {
  const intra::TemporaryDirectory directory;
  std::vector<float> params = kInitial;
  std::unique_ptr<Coordinator> coordinator;
  const auto coordinate = [&](diloco::Round round) {
    coordinator = std::make_unique<Coordinator>(directory.path());
    coordinator->follow({train(round), coordinator->apply_all(), finish(round + 1)});
  };
  coordinate(0);
  for (const std::uint64_t round : {0, 1}) {
    WorkerSettings started = settings(directory);
    started.keep_waiting = [&](const std::string&) {
      if (!coordinator) coordinate(round);
      return true;
    };
    Worker worker(started, kInitial);
    const auto steps = worker.next(params);
    ASSERT_TRUE(steps) << "it took the result of round " << round << " for the end";
    EXPECT_EQ(steps->round, round);
    worker.done(params, 4, 0);
    EXPECT_FALSE(worker.next(params));
    coordinator.reset();
  }
}

// It may have been killed before it had stored what it was offered.
TEST(WorkerApi, OffersItsSnapshotAgainToACoordinatorThatLacksIt) {
  const intra::TemporaryDirectory directory;
  std::vector<float> params = kInitial;
  WorkerSettings saves = settings(directory);
  saves.save_rounds = 1;
  auto coordinator = std::make_unique<Coordinator>(directory.path());
  coordinator->follow({train(0), coordinator->apply_all(), train(1)});
  Worker worker(saves, params);
  take_steps(worker, params, 0);
  ASSERT_TRUE(worker.next(params));
  EXPECT_EQ(coordinator->requests().front().save_rounds, 1U);
  EXPECT_EQ(coordinator->snapshots(), std::vector<diloco::Round>{1});
  using Versions = std::vector<diloco::Round>;
  for (const auto& [version, lacks_from, offered] :
       {std::tuple(1, 1, Versions{1, 2}), std::tuple(2, 3, Versions{3})}) {
    coordinator.reset();
    coordinator = std::make_unique<Coordinator>(directory.path());
    coordinator->wants_snapshots_from(lacks_from);
    coordinator->follow({train(version), coordinator->apply_all(), train(version + 1)});
    worker.done(params, 4, 0);
    ASSERT_TRUE(worker.next(params));
    EXPECT_EQ(coordinator->snapshots(), offered);
  }
}

TEST(WorkerApi, StopsWaitingWhenToldTo) {
  const intra::TemporaryDirectory directory;
  WorkerSettings impatient = settings(directory);
  impatient.keep_waiting = [](const std::string&) { return false; };
  try {
    Worker(impatient, kInitial);
    ADD_FAILURE() << "it attached to nobody";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
}

TEST(WorkerApi, ParametersOfAnotherSizeAreRefused) {
  const intra::TemporaryDirectory directory;
  EXPECT_THROW(Worker(settings(directory), std::vector<float>(3)), std::invalid_argument);
}

}  // namespace
}  // namespace causeway
