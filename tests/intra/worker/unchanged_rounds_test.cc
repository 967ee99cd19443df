#include "intra/worker/unchanged_rounds.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace causeway::intra {
namespace {

diloco::Contribution made_with(double delta_norm) {
  diloco::Contribution made;
  made.steps = 4;
  made.delta_norm = delta_norm;
  return made;
}

TEST(UnchangedRounds, AreToldOfOnceAfterTwoOfEachFragment) {
  for (const std::uint32_t fragments : {1U, 3U}) {
    UnchangedRounds rounds;
    for (std::uint32_t i = 1; i < 2 * fragments; ++i)
      EXPECT_FALSE(rounds.add(made_with(0), fragments)) << i;
    EXPECT_TRUE(rounds.add(made_with(0), fragments));
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(rounds.add(made_with(0), fragments));
    rounds.add(made_with(1), fragments);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(rounds.add(made_with(0), fragments)) << "again";
  }
}

TEST(UnchangedRounds, AreCountedInARow) {
  UnchangedRounds rounds;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(rounds.add(made_with(0), 1));
    EXPECT_FALSE(rounds.add(made_with(1e-30), 1));
  }
}

TEST(UnchangedRounds, AreNoneOfWhomNothingWasAsked) {
  UnchangedRounds rounds;
  EXPECT_FALSE(rounds.add(made_with(0), 1));
  diloco::Contribution idle = made_with(0), out = made_with(0);
  idle.steps = 0;
  out.sits_out = true;
  EXPECT_FALSE(rounds.add(idle, 1));
  EXPECT_FALSE(rounds.add(out, 1));
  EXPECT_TRUE(rounds.add(made_with(0), 1));
}

}  // namespace
}  // namespace causeway::intra
