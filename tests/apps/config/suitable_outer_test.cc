#include "apps/run/config/suitable_outer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config_schema.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = diloco::OuterOptions::Kind;
using Mean = diloco::OuterOptions::Mean;

Config load_at_k_30(std::vector<std::string> overrides) {
  overrides.emplace_back("train.steps=2100");
  overrides.emplace_back("train.k=30");
  return load_text(kSmallConfig, overrides);
}

void expect_outer(const Config& config, Kind kind, float lr, float momentum) {
  EXPECT_EQ(config.outer.kind, kind);
  EXPECT_FLOAT_EQ(config.outer.lr, lr);
  if (kind != Kind::sgd) {
    EXPECT_FLOAT_EQ(config.outer.momentum, momentum);
  }
}

const std::string kDense = "codec.matrix=dense:int8,block=128";
const std::string kSparse = "codec.matrix=topk:k=64,chunk=4096,value=2bit,index=rice";

// bench/RESULTS.md, "Overlap": what did best with two regions, with four, and over few rounds.
TEST(SuitableOuter, IsWhatMeasuredBest) {
  expect_outer(load_at_k_30({kDense}), Kind::nesterov, 0.71F, 0.8F);
  Config four = load_at_k_30({kDense});
  four.regions.resize(4);
  take_suitable_outer(four);
  expect_outer(four, Kind::nesterov, 1.0F, 0.8F);
  four.train.k = 100;
  take_suitable_outer(four);
  expect_outer(four, Kind::nesterov, 1.0F, 0.6F);
  expect_outer(load_at_k_30({kDense, "inner.optimizer=muon"}), Kind::nesterov, 0.71F, 0.6F);
  four.inner.optimizer = intra::InnerOptions::Optimizer::muon;
  take_suitable_outer(four);
  expect_outer(four, Kind::nesterov, 1.0F, 0.6F);
}

TEST(SuitableOuter, OfEagerRoundsReachesLessFarWithAdamW) {
  const std::string eager = "sync.variant=eager";
  expect_outer(load_at_k_30({kDense, eager}), Kind::nesterov, 0.71F, 0.6F);
  expect_outer(load_at_k_30({kDense, eager, "inner.optimizer=muon"}), Kind::nesterov, 0.71F, 0.6F);
  expect_outer(load_at_k_30({kSparse, eager}), Kind::sgd, 1.2F, 0);
}

TEST(SuitableOuter, OfSparseCodecsGoesByTheInnerOptimizer) {
  const Config adamw = load_at_k_30({kSparse}),
               muon = load_at_k_30({kSparse, "inner.optimizer=muon"});
  expect_outer(adamw, Kind::sgd, 1.2F, 0);
  EXPECT_EQ(adamw.outer.mean, Mean::senders);
  expect_outer(muon, Kind::sgd, 1.41F, 0);
  EXPECT_EQ(muon.outer.mean, Mean::all);
  EXPECT_EQ(load_at_k_30({kSparse, "outer.optimizer=sgd"}).outer.mean, Mean::all)
      << "as it always was";
  EXPECT_THAT(to_toml(adamw), HasSubstr("mean = \"senders\"\n"));
}

TEST(SuitableOuter, HasLittleMomentumInAShortRun) {
  Config few = load_at_k_30({kDense});
  few.train.steps = 3 * few.train.k;
  take_suitable_outer(few);
  expect_outer(few, Kind::nesterov, 1.0F, 0);
}

TEST(SuitableOuter, IsOfWhatWasLeftOut) {
  EXPECT_TRUE(load_at_k_30({}).outer_chosen);
  EXPECT_TRUE(load_at_k_30({"outer.optimizer=auto"}).outer_chosen);
  expect_outer(load_at_k_30({"outer.optimizer=nesterov"}), Kind::nesterov, 0.6F, 0.9F);
  expect_outer(load_at_k_30({"outer.lr=0.5"}), Kind::nesterov, 0.5F, 0.9F);
  EXPECT_THAT(
      [] {
        load_at_k_30({"outer.optimizer=auto", "outer.momentum=0.5"});
      },
      testing::ThrowsMessage<ConfigError>(HasSubstr("outer.momentum must be left out")));
  EXPECT_THAT([] { load_at_k_30({"outer.mean=senders"}); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("needs outer.optimizer beside it")));
  EXPECT_THAT(
      [] {
        load_at_k_30({"outer.optimizer=auto", "outer.mean=senders"});
      },
      testing::ThrowsMessage<ConfigError>(HasSubstr("outer.mean must be left out")));
}

TEST(SuitableOuter, IsWrittenOut) {
  const Config chosen = load_at_k_30({kDense});
  const std::string text = to_toml(chosen);
  EXPECT_THAT(text, HasSubstr("optimizer = \"nesterov\"\nlr = 0.71\nmomentum = 0.8\n"));
  EXPECT_EQ(shared_settings(load_text(text, {})), shared_settings(chosen));
}

TEST(SuitableOuter, WarnsOfMomentumWithASparseCodec) {
  const Config ruinous = load_at_k_30({kSparse, "codec.feedback=true", "outer.optimizer=nesterov"});
  EXPECT_THAT(outer_concern(ruinous),
              HasSubstr("chooses sgd with lr 1.20 and the mean over senders"));
  const auto by_senders = [](const std::string& lr) {
    return load_at_k_30(
        {kSparse, "codec.feedback=true", "outer.optimizer=sgd", "outer.mean=senders", lr});
  };
  EXPECT_THAT(outer_concern(by_senders("outer.lr=2.5")),
              HasSubstr("2.50 and the mean over senders"));
  EXPECT_EQ(outer_concern(by_senders("outer.lr=1.3")), "");
  EXPECT_EQ(outer_concern(load_at_k_30({kSparse, "codec.feedback=true"})), "");
  EXPECT_EQ(outer_concern(load_at_k_30({kDense, "outer.optimizer=nesterov"})), "");
}

}  // namespace
}  // namespace causeway::run
