#include "diloco/pacing/time_model.h"

#include <cmath>

#include <gtest/gtest.h>

namespace causeway::diloco::tuner {
namespace {

// Bandwidths of Streaming DiLoCo's Table 4 (Douillard et al. 2025, arXiv 2501.18512), DiLoCo rows,
// K = 100.
struct PublishedRow {
  double parameters, step_s;
  double gbit_s[5];
};
constexpr PublishedRow kDiLoCo[] = {{1e9, 0.1, {1.4, 6.2, 13.3, 23.3, 86.8}},
                                    {1e10, 0.8, {1.7, 7.5, 16.0, 33.9, 104.8}},
                                    {1e11, 4.9, {3.0, 11.0, 23.3, 49.4, 184.2}}};
constexpr double kUtilisations[] = {0.5, 0.8, 0.9, 0.95, 0.99};

// The bandwidth at which the closed form gives this utilisation, by bisection.
double gbit_s_needed(const PublishedRow& row, double wanted) {
  double low = 1e-3, high = 1e6;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    const RoundCosts costs{.step_s = row.step_s, .exchange_s = 16 * row.parameters / middle / 1e9};
    (utilisation(100, {}, costs) < wanted ? low : high) = middle;
  }
  return high;
}

TEST(TimeModel, ClosedFormGivesThePublishedDiLoCoRowsAsStated) {
  const double expected[3][5] = {
      {1.6, 6.4, 14.4, 30.4, 158}, {2.0, 8.0, 18, 38, 198}, {3.3, 13.1, 29.4, 62, 323}};
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < 5; ++i) {
      const double needed = gbit_s_needed(kDiLoCo[row], kUtilisations[i]);
      EXPECT_NEAR(needed / expected[row][i], 1, 0.015) << row << " " << kUtilisations[i];
      const double above = needed / kDiLoCo[row].gbit_s[i];
      EXPECT_GT(above, i < 3 ? 1.03 : i == 3 ? 1.12 : 1.74) << row << " " << kUtilisations[i];
      EXPECT_LT(above, i < 3 ? 1.27 : i == 3 ? 1.31 : 1.91) << row << " " << kUtilisations[i];
    }
  }
}

TEST(TimeModel, MeasuredUtilisationsOfIntellect1FollowFromItsTimes) {
  const auto percent = [](double exchange_s) {
    return 100 * utilisation(100, {}, {.step_s = 22.8, .exchange_s = exchange_s});
  };
  EXPECT_NEAR(percent(103), 95.7, 0.05);
  EXPECT_NEAR(percent(382), 85.6, 0.1);
  EXPECT_NEAR(percent(469), 83.0, 0.1);
}

TEST(TimeModel, OverlapHidesAsMuchAsItsSteps) {
  const RoundCosts costs{.step_s = 0.1, .prepare_s = 0.5, .exchange_s = 2};
  EXPECT_DOUBLE_EQ(round_s(100, {}, costs), 12.5);
  EXPECT_DOUBLE_EQ(round_s(100, {Variant::eager}, costs), 10.5);
  EXPECT_DOUBLE_EQ(round_s(10, {Variant::delayed}, costs), 2.5);
  // Four exchanges, each with five steps to hide behind.
  EXPECT_DOUBLE_EQ(round_s(100, {Variant::streaming, 4, 5}, costs), 10 + 0.5 + 4 * 1.5);
}

TEST(TimeModel, FragmentsBeginEvenlyAndNeverOverlap) {
  const Overlap overlap{Variant::streaming, 3, 1000};
  EXPECT_EQ(start_step(overlap, 10, 0), 3U);
  EXPECT_EQ(start_step(overlap, 10, 2), 10U);
  EXPECT_EQ(start_step(overlap, 10, 5), 20U);
  for (std::uint64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(finish_step(overlap, 10, i), start_step(overlap, 10, i + 1));
  }
}

TEST(TimeModel, HidingKCoversTheExchange) {
  EXPECT_EQ(hiding_k(0.1, 1.01), 11);
}

TEST(TimeModel, VariantsAreNamedAsInTheConfiguration) {
  for (const Variant variant :
       {Variant::synchronous, Variant::streaming, Variant::eager, Variant::delayed}) {
    EXPECT_EQ(parse_variant(to_string(variant)), variant);
  }
  EXPECT_FALSE(parse_variant("lazy"));
}

}  // namespace
}  // namespace causeway::diloco::tuner
