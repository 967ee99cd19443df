// The worker API with parameters that lie in several places, and its evaluations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "intra/worker/worker.h"
#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/scripted_coordinator.h"

namespace causeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// kInitial in two places: the bias backwards, the weight transposed and with a gap after each
// column.
struct Scattered {
  std::vector<float> bias{3, 2, 1};
  std::vector<float> weight{4, 6, -1, 5, 7, -1};

  std::vector<ParameterView> views() {
    return {{.data = &bias[2], .shape = {3}, .strides = {-1}},
            {.data = weight.data(), .shape = {2, 2}, .strides = {1, 3}}};
  }
  std::vector<float> flat() const {
    return {bias[2], bias[1], bias[0], weight[0], weight[3], weight[1], weight[4]};
  }
  void add(float step) {
    for (float& value : bias) value += step;
    for (const std::size_t i : {0, 1, 3, 4}) weight[i] += step;
  }
};

// Twice 0.3 more.
std::vector<float> learnt() {
  std::vector<float> params = kInitial;
  add(params, 0.3F);
  add(params, 0.3F);
  return params;
}

template <typename Call>
void expect_refused(const Call& call, const std::string& why) {
  try {
    call();
    ADD_FAILURE() << "accepted: " << why;
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(why));
  }
}

TEST(WorkerTensors, LeadToTheSameBitsAsOneSpan) {
  std::vector<diloco::Digest> payloads;
  for (const bool scattered : {false, true}) {
    const intra::TemporaryDirectory directory;
    Coordinator coordinator(directory.path());
    coordinator.follow(
        {train(0), coordinator.apply_all(), train(1, 40), coordinator.apply_all(), finish(2)});
    Scattered places;
    std::vector<float> params = kInitial;
    ASSERT_EQ(places.flat(), params);
    std::vector<ParameterView> views = places.views();
    Worker worker =
        scattered ? Worker(settings(directory), views) : Worker(settings(directory), params);
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(scattered ? worker.next(views) : worker.next(params));
      places.add(0.3F);
      add(params, 0.3F);
      scattered ? worker.done(views, 4, 0.1) : worker.done(params, 4, 0.1);
    }
    EXPECT_FALSE(scattered ? worker.next(views) : worker.next(params));
    EXPECT_EQ(scattered ? places.flat() : params, learnt());
    EXPECT_EQ(places.weight[2], -1) << "what lies between is not touched";
    for (const auto& made : coordinator.contributions()) payloads.push_back(made.payload.hash);
  }
  ASSERT_EQ(payloads.size(), 4);
  EXPECT_EQ(payloads[0], payloads[2]);
  EXPECT_EQ(payloads[1], payloads[3]);
}

TEST(WorkerTensors, ThatDoNotFitAreRefusedAndNothingIsLost) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
  Scattered places;
  const std::vector<ParameterView> good = places.views();
  Worker worker(settings(directory), good);
  const auto with = [&](const std::function<void(std::vector<ParameterView>&)>& change) {
    std::vector<ParameterView> views = places.views();
    change(views);
    return views;
  };
  const std::vector<std::pair<std::vector<ParameterView>, std::string>> wrong{
      {with([](auto& v) { v.pop_back(); }), "1 parameter tensors where the worker was made with 2"},
      {with([](auto& v) { v[1].data = nullptr; }), "tensor 'weight': its data is a null pointer"},
      {with([](auto& v) {
         v[1].shape = {2, 3};
       }),
       "tensor 'weight': its shape is 2 x 3 where the worker was made with 2 x 2"},
      {with([](auto& v) { v[0].shape = {}; }), "tensor 'bias': its shape is no dimension"},
      {with([](auto& v) { v[1].strides = {1}; }), "1 strides for 2 dimensions"},
      {with([](auto& v) {
         v[1].strides = {0, 1};
       }),
       "stride 0 in dimension 0"},
  };
  for (const auto& [views, why] : wrong) expect_refused([&] { worker.next(views); }, why);
  ASSERT_TRUE(worker.next(good));
  places.add(0.5F);
  for (const auto& [views, why] : wrong) expect_refused([&] { worker.done(views, 4, 0); }, why);
  worker.done(good, 4, 0);
  EXPECT_FALSE(worker.next(good));
  EXPECT_EQ(coordinator.contributions().size(), 1);
  EXPECT_EQ(places.flat()[0], 1.5F);
}

TEST(WorkerTensors, CallsOutOfOrderAreRefusedAndNothingIsLost) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial;
  Worker worker(settings(directory), params);
  expect_refused([&] { worker.done(params, 4, 0); }, "done() needs next() first");
  ASSERT_TRUE(worker.next(params));
  expect_refused([&] { worker.next(params); }, "next() needs done() first");
  expect_refused([&] { worker.validated(1); }, "validated() needs next() to ask");
  expect_refused([&] { worker.done(params, 5, 0); }, "told of 5 steps where next() asked for 4");
  worker.done(params, 4, 0);
  EXPECT_FALSE(worker.next(params));
  std::vector<float> again(params.size());
  EXPECT_FALSE(worker.next(again)) << "the run stays over";
  EXPECT_EQ(again, params);
}

TEST(WorkerTensors, SettingsThatMakeNoSenseAreRefused) {
  const intra::TemporaryDirectory directory;
  const auto refused = [&](const std::function<void(WorkerSettings&)>& change,
                           const std::string& why) {
    WorkerSettings wrong = settings(directory);
    change(wrong);
    expect_refused([&] { Worker(wrong, kInitial); }, why);
  };
  refused([](auto& s) { s.region = ""; }, "settings.region is empty");
  refused([](auto& s) { s.directory = ""; }, "settings.directory is empty");
  refused([](auto& s) { s.tensors.clear(); }, "settings.tensors is empty");
  refused([](auto& s) { s.coordinator = "localhost:1"; }, "certificates go together");
  refused([](auto& s) { s.samples_per_step = 0; }, "settings.samples_per_step is 0");
  refused([](auto& s) { s.save_rounds = 0; }, "settings.save_rounds is 0");
  refused([](auto& s) { s.tensors[1].name = "bias"; }, "tensor 'bias' appears twice");
}

// ---- Evaluations ----

constexpr const char* kAuto = "sync.k = \"auto\"\nsync.held_out_sequences = 16\n";

// Two rounds; gives the losses in turn, and returns what was contributed.
std::vector<diloco::Contribution> evaluate_in(Coordinator& coordinator, WorkerSettings settings,
                                              std::vector<double> losses, int& asked) {
  coordinator.follow(
      {train(0), coordinator.apply_all(), train(1, 40), coordinator.apply_all(), finish(2)});
  std::vector<float> params = kInitial;
  Worker worker(std::move(settings), params);
  asked = 0;
  while (const auto steps = worker.next(params)) {
    if (steps->validation_samples > 0) {
      EXPECT_EQ(steps->validation_samples, 16);
      EXPECT_EQ(steps->round, 1) << "no evaluation of what the run begins with, or ends with";
      EXPECT_EQ(steps->count, 0);
      EXPECT_EQ(params[0], kInitial[0] + 0.5F) << "the average";
      worker.validated(losses.at(asked++));
      continue;
    }
    add(params, 0.5F);
    worker.done(params, steps->count, 0);
  }
  return coordinator.contributions();
}

TEST(WorkerEvaluations, AreContributed) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path(), kAuto);
  WorkerSettings able = settings(directory);
  able.validates = true;
  int asked = 0;
  const auto contributions = evaluate_in(coordinator, able, {2.5}, asked);
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(contributions.size(), 2);
  EXPECT_FALSE(contributions[0].held_out_loss);
  EXPECT_EQ(contributions[1].held_out_loss, 2.5);
}

TEST(WorkerEvaluations, ThatAreNotFiniteCountAsNone) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path(), kAuto);
  WorkerSettings able = settings(directory);
  able.validates = true;
  int asked = 0;
  const auto contributions =
      evaluate_in(coordinator, able, {std::numeric_limits<double>::quiet_NaN()}, asked);
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(contributions.at(1).held_out_loss);
}

TEST(WorkerEvaluations, AreNotAskedForWhereNobodyWantsOrMakesThem) {
  for (const bool wanted : {false, true}) {
    const intra::TemporaryDirectory directory;
    Coordinator coordinator(directory.path(), wanted ? kAuto : "sync.k = \"fixed\"\n");
    WorkerSettings able = settings(directory);
    able.validates = !wanted;
    int asked = 0;
    EXPECT_EQ(evaluate_in(coordinator, able, {}, asked).size(), 2);
    EXPECT_EQ(asked, 0);
  }
}

// Steps ahead lead away from the average; it is what is evaluated all the same.
TEST(WorkerEvaluations, AreOfTheAverageWhereStepsAreTakenAhead) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path(), std::string(kAuto) + "sync.variant = \"delayed\"\n");
  const auto train_ahead = [](diloco::WorkerServer& server) { server.train({0, 4, 0, 0, {}, 2}); };
  coordinator.follow(
      {train_ahead, coordinator.apply_all(), train(1, 40), coordinator.apply_all(), finish(2)});
  std::vector<float> params = kInitial;
  WorkerSettings able = settings(directory);
  able.validates = true;
  Worker worker(able, params);
  std::vector<float> evaluated, begun;
  std::vector<std::uint32_t> counts;
  while (const auto steps = worker.next(params)) {
    counts.push_back(steps->count);
    if (steps->validation_samples > 0) {
      evaluated.push_back(params[0]);
      continue;  // without an answer
    }
    begun.push_back(params[0]);
    add(params, 0.25F * static_cast<float>(steps->count));
    worker.done(params, steps->count, 0);
  }
  EXPECT_THAT(counts, ElementsAre(4, 2, 0, 2));
  EXPECT_THAT(evaluated, ElementsAre(2.0F));
  EXPECT_THAT(begun, ElementsAre(1.0F, 1.0F, 1.5F));
  EXPECT_FALSE(coordinator.contributions().at(1).held_out_loss);
}

// The others are of a model in which only some fragments have moved on.
TEST(WorkerEvaluations, ComeWhenEveryFragmentHadItsTurn) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(
      directory.path(), std::string(kAuto) + "sync.variant = \"streaming\"\nsync.fragments = 2\n");
  coordinator.follow({train(0), coordinator.apply_all(), train(1, 40), coordinator.apply_all(),
                      train(2, 80), coordinator.apply_all(), finish(3)});
  std::vector<float> params = kInitial;
  WorkerSettings able = settings(directory);
  able.validates = true;
  Worker worker(able, params);
  std::vector<std::uint64_t> evaluated;
  while (const auto steps = worker.next(params)) {
    if (steps->validation_samples > 0) {
      evaluated.push_back(steps->round);
      worker.validated(1);
    } else {
      worker.done(params, steps->count, 0);
    }
  }
  EXPECT_THAT(evaluated, ElementsAre(2));
}

}  // namespace
}  // namespace causeway
