#include "compression/error_budget.h"

#include <gtest/gtest.h>

#include "tests/compression/encoded.h"
#include "tests/compression/samples.h"

namespace causeway::compression {
namespace {

using Verdict = ErrorBudget::Verdict;
using Specs = std::vector<std::string>;

EncodeStats error_of(double relative) {
  return {.input_norm_squared = 4, .error_norm_squared = 4 * relative};
}

const Specs kLadder{"topk:k=64", "dense:int4", "dense:fp32"};

TEST(ErrorBudget, StepsUpTheLayerThatLostMoreThanTheBoundAndNoOther) {
  ErrorBudget budget(kLadder, 0.5, 3);
  EXPECT_EQ(budget.spec(1), "topk:k=64,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(budget.observe(1, error_of(0.5)), Verdict::within);
  EXPECT_EQ(budget.observe(1, error_of(0.51)), Verdict::stepped_up);
  EXPECT_EQ(budget.spec(1), "dense:int4,block=64");
  EXPECT_EQ(budget.spec(0), "topk:k=64,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(budget.observe(1, error_of(0.1)), Verdict::within);
  EXPECT_EQ(budget.spec(1), "dense:int4,block=64") << "a rung is kept";
}

TEST(ErrorBudget, SaysSoAtTheEndOfTheLadder) {
  ErrorBudget budget(Specs{"dense:2bit"}, 0.01, 1);
  EXPECT_EQ(budget.observe(0, error_of(0.2)), Verdict::exhausted);
  EXPECT_EQ(budget.observe(0, error_of(0.2)), Verdict::exhausted);
  EXPECT_EQ(budget.spec(0), "dense:2bit");
}

TEST(ErrorBudget, LosesNothingOfNothing) {
  ErrorBudget budget(kLadder, 0, 1);
  EXPECT_EQ(budget.observe(0, EncodeStats{}), Verdict::within);
}

TEST(ErrorBudget, ComesBackFromACheckpoint) {
  ErrorBudget budget(kLadder, 0.5, 2);
  budget.observe(1, error_of(1));
  const std::vector<std::uint8_t> kept(budget.rungs().begin(), budget.rungs().end());
  ErrorBudget again(kLadder, 0.5, 2);
  EXPECT_TRUE(again.restore(kept));
  EXPECT_EQ(again.spec(0), budget.spec(0));
  EXPECT_EQ(again.spec(1), budget.spec(1));
  EXPECT_FALSE(again.restore(std::vector<std::uint8_t>{0, 3})) << "no such rung";
  EXPECT_FALSE(again.restore(std::vector<std::uint8_t>{0})) << "another number of layers";
  EXPECT_EQ(again.spec(1), budget.spec(1));
}

TEST(ErrorBudget, RefusesASpecThatIsNone) {
  EXPECT_THROW(ErrorBudget(Specs{"dense:int7"}, 0.5, 1), std::system_error);
}

// The loop of the header: whatever the distribution, the layer ends on a rung that keeps the bound.
TEST(ErrorBudget, FindsARungThatKeepsTheBound) {
  for (const double bound : {0.9, 0.6, 0.1, 1e-3, 0.0}) {
    const Specs ladder = ladder_above("topk:k=64");
    ErrorBudget budget(ladder, bound, 1);
    const Floats layer = draw(gaussian_at, 4 * kChunk);
    Verdict verdict = Verdict::stepped_up;
    for (std::size_t round = 0; verdict != Verdict::within; ++round) {
      ASSERT_LT(round, ladder.size()) << bound;
      verdict = budget.observe(0, encode(*make_codec(budget.spec(0)), layer).stats);
    }
  }
}

TEST(Ladder, LosesLessWithEveryRungAndEndsLossless) {
  const Floats layer = draw(laplace_at, 4 * kChunk);
  for (const char* spec : {"topk:k=8", "topk:k=64", "topk:k=300,value=int8", "dense:ternary",
                           "dense:nf4", "randk", "dense:fp32"}) {
    const Specs ladder = ladder_above(spec);
    EXPECT_EQ(ladder.front(), make_codec(spec)->spec());
    EXPECT_EQ(ladder.back(), "dense:fp32");
    double error = 2;
    for (const std::string& rung : ladder) {
      const double next = encode(*make_codec(rung), layer).stats.relative_squared_error();
      EXPECT_LT(next, error) << spec << " " << rung;
      error = next;
    }
    EXPECT_EQ(error, 0);
  }
  EXPECT_EQ(ladder_above("topk:k=64").size(), 7U);
  EXPECT_EQ(ladder_above("dense:int8").size(), 2U);
}

}  // namespace
}  // namespace causeway::compression
