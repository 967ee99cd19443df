// Runs in one process. That they learn what runs of processes do, bit for bit:
// tests/e2e/tune_test.py.
#include "apps/run/learning/trial.h"

#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

class TrialTest : public testing::Test {
 protected:
  TrialTest() {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "to be or not to be, line " + std::to_string(i % 7) + "\n";
    file_ = directory_.write("text", text);
  }
  Config config(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> overrides = {"data.files=" + file_.string(),
                                          "data.format=text",
                                          "model.layers=1",
                                          "model.width=16",
                                          "model.heads=2",
                                          "model.context=16",
                                          "model.vocabulary=256",
                                          "train.steps=40",
                                          "train.k=10",
                                          "inner.lr=0.01",
                                          "inner.warmup_steps=2",
                                          "train.validation_sequences=8"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return load_text(kSmallConfig, overrides);
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_;
};

constexpr double kUntrained = 5.5;  // nats per byte, ln 256

TEST_F(TrialTest, Learns) {
  const TrialResult rounds = train_in_rounds(config());
  EXPECT_EQ(rounds.rounds, 4U);
  EXPECT_LT(rounds.loss, 0.8 * kUntrained);
  EXPECT_GT(rounds.payload_bytes, 0U);
  EXPECT_EQ(rounds.missed, 0);
  EXPECT_EQ(rounds.digest, train_in_rounds(config()).digest);
  const TrialResult lockstep = train_in_lockstep(config());
  EXPECT_LT(lockstep.loss, 0.8 * kUntrained);
  EXPECT_NE(lockstep.digest, rounds.digest);
}

TEST_F(TrialTest, EveryVariantTakesAllStepsAndLearns) {
  for (const char* variant : {"streaming", "eager", "delayed"}) {
    std::vector<std::string> overrides = {std::string("sync.variant=") + variant, "outer.lr=0.5",
                                          "outer.momentum=0"};
    if (variant == std::string("streaming"))
      overrides.insert(overrides.end(), {"sync.fragments=2", "sync.overlap_steps=2"});
    EXPECT_LT(train_in_rounds(config(overrides)).loss, 0.9 * kUntrained) << variant;
  }
}

TEST_F(TrialTest, ContributionsThatMissTheirRoundAreCounted) {
  for (const Missing missing : {Missing::late, Missing::returned, Missing::dropped}) {
    const TrialResult result = train_in_rounds(config({"codec.feedback=true"}), missing);
    EXPECT_GT(result.missed, 0);
    EXPECT_LE(result.missed, 0.5);
  }
  EXPECT_THROW(train_in_rounds(config({"sync.variant=eager"}), Missing::late), ConfigError);
}

}  // namespace
}  // namespace causeway::run
