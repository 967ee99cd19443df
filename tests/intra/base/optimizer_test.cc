#include "intra/base/adamw.h"
#include "intra/base/global_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "tests/golden/adamw_golden.h"
#include "tests/support/openmp.h"

namespace causeway::intra {
namespace {

using Schedule = InnerOptions::Schedule;

InnerOptions schedule(Schedule kind) {
  return {.lr = 1, .lr_final_fraction = 0.1F, .schedule = kind, .warmup_steps = 10};
}

TEST(LearningRate, RisesLinearlyDuringWarmup) {
  for (const Schedule kind : {Schedule::constant, Schedule::linear, Schedule::cosine}) {
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 0, 111), 0.1F);
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 4, 111), 0.5F);
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 9, 111), 1.0F);
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 10, 111), 1.0F);
  }
}

TEST(LearningRate, FallsToItsFinalFractionAtTheLastStep) {
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::constant), 110, 111), 1);
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::linear), 110, 111), 0.1F);
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::cosine), 110, 111), 0.1F);
  // Half way, a quarter of the way.
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::linear), 60, 111), 0.55F);
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::cosine), 60, 111), 0.55F);
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::linear), 35, 111), 0.775F);
  EXPECT_FLOAT_EQ(learning_rate(schedule(Schedule::cosine), 35, 111),
                  static_cast<float>(0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))));
}

TEST(LearningRate, IsDefinedForRunsThatEndInTheWarmup) {
  for (const Schedule kind : {Schedule::constant, Schedule::linear, Schedule::cosine}) {
    for (std::uint64_t total = 1; total <= 12; ++total) {
      for (std::uint64_t step = 0; step < total; ++step) {
        const float lr = learning_rate(schedule(kind), step, total);
        EXPECT_GT(lr, 0);
        EXPECT_LE(lr, 1);
      }
    }
  }
}

TEST(LearningRate, StartsAtOnceWithoutWarmup) {
  InnerOptions options = schedule(Schedule::linear);
  options.warmup_steps = 0;
  EXPECT_FLOAT_EQ(learning_rate(options, 0, 11), 1);
  EXPECT_FLOAT_EQ(learning_rate(options, 10, 11), 0.1F);
}

TEST(GlobalNorm, IsTheRootOfTheSumOfSquares) {
  EXPECT_EQ(global_norm({}), 0);
  EXPECT_EQ(global_norm(std::vector<float>{3, -4}), 5);
  for (const std::size_t size : {1, 15, 16, 17, 100, 65535, 65536, 65537, 200'001}) {
    std::vector<float> values(size);
    double expected = 0;
    for (std::size_t i = 0; i < size; ++i) {
      values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
      expected += static_cast<double>(values[i]) * values[i];
    }
    EXPECT_NEAR(global_norm(values), std::sqrt(expected), 1e-12 * std::sqrt(expected)) << size;
  }
}

TEST(GlobalNorm, SumsInDouble) {
  // In float the small squares would vanish beside the large one, and the largest would overflow.
  std::vector<float> values(200'001, 1e-3F);
  values[0] = 100;
  EXPECT_NEAR(global_norm(values), std::sqrt(10'000.2), 1e-6);
  EXPECT_NEAR(global_norm(std::vector<float>{3e30F, 4e30F}), 5e30, 1e24);
}

TEST(GlobalNorm, ShowsWhatIsNotFinite) {
  std::vector<float> values(100'000, 1);
  values[70'000] = std::nanf("");
  EXPECT_TRUE(std::isnan(global_norm(values)));
  values[70'000] = INFINITY;
  EXPECT_TRUE(std::isinf(global_norm(values)));
}

TEST(GlobalNorm, HasTheSameBitsForAnyNumberOfThreads) {
  if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  std::vector<float> values(200'000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i % 1000);
  }
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = global_norm(values);
  omp_set_num_threads(3);
  const double three = global_norm(values);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
}

TEST(AdamW, AgreesWithPyTorch) {
  namespace golden = adamw_golden;
  const std::size_t matrix = golden::kMatrix[0] * golden::kMatrix[1];
  const diloco::Layout layout(
      {{"matrix", {golden::kMatrix[0], golden::kMatrix[1]}}, {"vector", {golden::kVector}}});
  const std::size_t count = matrix + golden::kVector;
  // Where the i-th golden number lies in a flat span.
  const auto place = [&](std::size_t i) {
    return i < matrix ? layout.find("matrix").offset + i
                      : layout.find("vector").offset + i - matrix;
  };
  std::vector<float> params(layout.size()), gradients(layout.size());
  for (std::size_t i = 0; i < count; ++i) {
    params[place(i)] = static_cast<float>(golden::kStart[i]);
  }
  AdamW optimizer({.beta1 = static_cast<float>(golden::kBeta1),
                   .beta2 = static_cast<float>(golden::kBeta2),
                   .epsilon = static_cast<float>(golden::kEpsilon),
                   .weight_decay = static_cast<float>(golden::kWeightDecay)},
                  layout);
  constexpr float kScale = 0.25F;
  for (int step = 0; step < golden::kSteps; ++step) {
    for (std::size_t i = 0; i < count; ++i) {
      const double gradient = golden::kGradients[static_cast<std::size_t>(step) * count + i];
      gradients[place(i)] = static_cast<float>(gradient / kScale);
    }
    const double lr = golden::kLr * (step + 1) / golden::kSteps;
    optimizer.step(static_cast<std::uint64_t>(step), static_cast<float>(lr), kScale, params,
                   gradients);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double first = golden::kFirstMoment[i], second = golden::kSecondMoment[i];
    EXPECT_NEAR(params[place(i)], golden::kParams[i], 5e-7) << i;
    EXPECT_NEAR(optimizer.first_moment()[place(i)], first, 1e-6 * std::abs(first) + 1e-8) << i;
    EXPECT_NEAR(optimizer.second_moment()[place(i)], second, 1e-5 * second) << i;
  }
}

TEST(AdamW, DecaysMatricesAlone) {
  const diloco::Layout layout({{"matrix", {300, 300}}, {"vector", {300}}});
  std::vector<float> params(layout.size(), 1), gradients(layout.size());
  AdamW optimizer({.weight_decay = 0.5F}, layout);
  optimizer.step(0, 0.5F, 1, params, gradients);
  const std::size_t vectors = layout.find("vector").offset;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    ASSERT_EQ(params[i], i < vectors ? 0.75F : 1.0F) << i;
  }
}

TEST(AdamW, KeepsPaddingZero) {
  const diloco::Layout layout({{"matrix", {3, 3}}, {"vector", {5}}});
  std::vector<float> params(layout.size()), gradients(layout.size());
  AdamW optimizer({}, layout);
  for (std::uint64_t step = 0; step < 3; ++step) optimizer.step(step, 0.1F, 1, params, gradients);
  for (const float value : params) ASSERT_EQ(value, 0);
}

TEST(AdamW, TellsOfEachElementOnceThatItIsStepped) {
  const diloco::Layout layout({{"matrix", {700, 300}}, {"vector", {300}}});
  std::vector<float> params(layout.size()), gradients(layout.size(), 1);
  AdamW optimizer({}, layout);
  std::vector<int> told(layout.size());
  optimizer.step(0, 0.1F, 1, params, gradients, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) told[i] += params[i] < 0 ? 1 : 100;
  });
  EXPECT_THAT(told, testing::Each(1));
}

TEST(AdamW, HasTheSameBitsForAnyNumberOfThreads) {
  if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  const diloco::Layout layout({{"matrix", {400, 400}}, {"vector", {400}}});
  std::vector<float> gradients(layout.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = std::sin(static_cast<float>(i));
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    std::vector<float> params(layout.size(), 0.5F);
    AdamW optimizer({}, layout);
    optimizer.step(0, 0.1F, 1, params, gradients);
    optimizer.step(1, 0.1F, 0.5F, params, gradients);
    return params;
  };
  const int threads = omp_get_max_threads();
  const std::vector<float> one = run(1), three = run(3);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
}

TEST(AdamW, KeepsTheMomentsOfPartsAndTakesThemBack) {
  const diloco::Layout layout({{"a", {64, 64}}, {"x", {7}}});
  AdamW whole({}, layout), parts({}, layout);
  std::vector<float> params(layout.size(), 1), same = params, gradients(layout.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = std::sin(static_cast<float>(i));
  whole.step(0, 0.1F, 1, params, gradients);
  parts.step(0, 0.1F, 1, same, gradients);
  const std::vector<Range> kept{{16, 48}, {4080, 4112}};
  parts.keep(kept);
  EXPECT_FALSE(parts.has_all());
  EXPECT_EQ(parts.first_moment().size(), 64);
  whole.step(1, 0.1F, 1, params, gradients);
  parts.step(1, 0.1F, 1, same, gradients);
  parts.widen();
  EXPECT_TRUE(parts.has_all());
  for (const Range& range : kept) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      EXPECT_EQ(same[i], params[i]) << i;
      EXPECT_EQ(parts.first_moment()[i], whole.first_moment()[i]) << i;
      EXPECT_EQ(parts.second_moment()[i], whole.second_moment()[i]) << i;
    }
  }
  EXPECT_NE(same[0], params[0]) << "not its part";
  EXPECT_EQ(parts.first_moment()[0], 0);
}

}  // namespace
}  // namespace causeway::intra
