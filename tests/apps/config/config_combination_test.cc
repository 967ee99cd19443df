// Settings that are fine alone and impossible together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;

std::string problem_with(const std::vector<std::string>& overrides, const std::string& more = "") {
  return problem_of(kSmallConfig + more, overrides);
}

TEST(ConfigCombination, StepsMustBeAMultipleOfK) {
  EXPECT_THAT(problem_with({"train.k=30"}),
              HasSubstr("train.steps: must be a multiple of train.k, 30"));
}

TEST(ConfigCombination, ProblemsOfTheFileNameTheirLine) {
  EXPECT_THAT(problem_with({"train.k=30"}), HasSubstr("run.toml:5: train.steps"));
}

TEST(ConfigCombination, BatchMustSplitAmongWorkersOfEveryRegion) {
  EXPECT_THAT(
      problem_with({}, "workers = 3\n"),
      HasSubstr("train.batch: must be a multiple of workers x micro_batches, 3 in region west"));
  EXPECT_EQ(problem_with({}, "workers = 2\n"), "");
  EXPECT_THAT(problem_with({"train.micro_batches=3"}), HasSubstr("train.batch"));
}

TEST(ConfigCombination, BucketsInBf16NeedARegionOfSeveralWorkers) {
  EXPECT_THAT(problem_with({"train.bucket_precision=bf16"}),
              HasSubstr("--set train.bucket_precision: has no effect where every region has one "
                        "worker"));
  EXPECT_EQ(problem_with({"train.bucket_precision=bf16"}, "workers = 2\n"), "");
  EXPECT_THAT(problem_with({"train.bucket_precision=fp16"}, "workers = 2\n"),
              HasSubstr("must be fp32 or bf16"));
}

TEST(ConfigCombination, RegionsMayBeOutOfReachButNotAll) {
  const std::string none = "advertise = \"\"\n";
  EXPECT_EQ(problem_with({}, none), "");
  const std::string another = none + "[[regions]]\nname = \"far\"\n" + none;
  EXPECT_EQ(problem_with({}, another), "") << "the two talk by way of the first";
  std::string all = kSmallConfig + another;
  all.insert(all.find("[[regions]]\nname = \"west\""), none);
  EXPECT_THAT(problem_of(all), HasSubstr("no region has one"));
  EXPECT_EQ(
      problem_of(kSmallConfig.substr(0, kSmallConfig.find("[[regions]]\nname = \"west\"")) + none),
      "")
      << "it is alone";
}

TEST(ConfigCombination, WidthMustSplitAmongHeads) {
  EXPECT_THAT(problem_with({"model.heads=3"}),
              HasSubstr("model.width: must be a multiple of model.heads, 3"));
}

TEST(ConfigCombination, KeyValueHeadsMustDivideHeads) {
  EXPECT_THAT(problem_with({"model.family=llama", "model.kv_heads=3"}),
              HasSubstr("must divide model.heads, 4"));
  EXPECT_THAT(problem_with({"model.kv_heads=2"}), HasSubstr("needs llama"));
  EXPECT_EQ(problem_with({"model.family=llama", "model.kv_heads=2"}), "");
}

TEST(ConfigCombination, RotaryPositionsNeedAnEvenHead) {
  EXPECT_THAT(problem_with({"model.family=llama", "model.width=12"}),
              HasSubstr("even number per head"));
  EXPECT_EQ(problem_with({"model.width=12"}), "");
}

TEST(ConfigCombination, SparseCodecsNeedFeedback) {
  const std::string sparse = "codec.matrix=topk:k=64,chunk=4096,value=2bit,index=elias-fano";
  EXPECT_EQ(problem_with({sparse}), "");
  EXPECT_THAT(problem_with({sparse, "codec.feedback=false"}),
              HasSubstr("--set codec.feedback: must be true"));
  EXPECT_EQ(problem_with({"codec.feedback=false"}), "");
}

TEST(ConfigCombination, CodecSpecsAreChecked) {
  EXPECT_THAT(problem_with({"codec.matrix=dense:int9"}), HasSubstr("--set codec.matrix: "));
  EXPECT_THAT(problem_with({"codec.error_max=0.5"}), HasSubstr("needs codec.step_up"));
}

TEST(ConfigCombination, RegionsMustBeThereAndHaveNamesOfTheirOwn) {
  EXPECT_THAT(problem_with({}, "[[regions]]\nname = \"east\"\n"),
              HasSubstr("run.toml:12: regions[2].name: must be unique"));
  EXPECT_THAT(problem_with({}, "[[regions]]\nname = \"East\"\n"),
              HasSubstr("must be 1 to 63 of [a-z0-9-]"));
  EXPECT_THAT(problem_with({}, "[[regions]]\nname = \"../up\"\n"),
              HasSubstr("must be 1 to 63 of [a-z0-9-]"));
  for (const char* name : {"witness.name=../A b", "witness.name=Third"}) {
    EXPECT_THAT(problem_with({name}), HasSubstr("must be 1 to 63 of [a-z0-9-]"));
  }
  EXPECT_EQ(problem_with({"witness.name="}), "");
  EXPECT_THROW(load_text("[data]\nfiles=[\"a\"]\n[train]\nsteps=1\nk=1\n"), ConfigError);
}

TEST(ConfigCombination, DeciderMustBeARegion) {
  EXPECT_THAT(problem_with({"sync.founder=north"}),
              HasSubstr("must be one of the regions: east, west"));
}

TEST(ConfigCombination, NoMoreContributionsThanRegions) {
  EXPECT_THAT(problem_with({"sync.contributions_min=3"}),
              HasSubstr("must be at most the number of regions, 2"));
}

TEST(ConfigCombination, GraceMustNotShrink) {
  EXPECT_THAT(problem_with({"sync.grace_min_s=10", "sync.grace_max_s=9"}),
              HasSubstr("sync.grace_min_s"));
}

constexpr const char* kPublished = R"({"model_type": "llama", "vocab_size": 300,
  "max_position_embeddings": 64, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6,
  "num_key_value_heads": 2, "intermediate_size": 80, "tie_word_embeddings": true})";

class PublishedModel : public testing::Test {
 protected:
  void SetUp() override { directory_.write("model/config.json", kPublished); }

  // The keys of [model], instead of those of the small configuration.
  Config load(const std::string& keys, const std::vector<std::string>& overrides = {}) const {
    return load_text(
        "[model]\nfrom = \"" + (directory_ / "model").string() + "\"\n" + keys + kWithoutModel,
        overrides);
  }
  void refuses(const std::string& keys, const std::vector<std::string>& parts) const {
    try {
      load(keys);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ConfigError& error) {
      for (const std::string& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }

  TemporaryDirectory directory_;
  const std::string kWithoutModel = R"(
[data]
files = ["tokens.bin"]
format = "uint16"
[train]
batch = 4
steps = 40
k = 20
[[regions]]
name = "east"
)";
};

TEST_F(PublishedModel, GivesTheShapeThatTheFileLeavesOut) {
  const Config config = load("dropout = 0.1\n");
  EXPECT_EQ(config.model.family, intra::ModelOptions::Family::llama);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.hidden, 80);
  EXPECT_EQ(config.model.context, 64);
  EXPECT_TRUE(config.model.tied_head);
  EXPECT_EQ(config.model.dropout, 0.1F);
  EXPECT_EQ(config.data.vocabulary, 300);
  EXPECT_TRUE(config.origin.tokenizer.empty());
  EXPECT_EQ(load("context = 16\n").model.context, 16);
  EXPECT_EQ(to_toml(load_text(to_toml(config))), to_toml(config));
}

TEST_F(PublishedModel, RefusesKeysThatContradictIt) {
  refuses("layers = 4\n", {"model.layers", "is 4", "has 3"});
  refuses("context = 128\n", {"model.context", "is 128", "has 64"});
  refuses("family = \"gpt2\"\n", {"model.family", "llama"});
  directory_.write("model/config.json", "{}");
  refuses("", {"model.from", "model_type"});
}

TEST_F(PublishedModel, BringsItsTokenizerWhichMakesTokensOnly) {
  directory_.write("model/tokenizer.json", "{}");
  EXPECT_EQ(load("").origin.tokenizer, directory_ / "model");
  EXPECT_THROW(load("", {"data.format=text"}), ConfigError);
}

}  // namespace
}  // namespace causeway::run
