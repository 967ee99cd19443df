// Against payloads and snapshots that are really made.
#include "apps/run/config/spool_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <random>

#include "compression/codecs/payload.h"
#include "intra/outer/codec_policy.h"
#include "intra/outer/outer_state.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

std::uint64_t real_payload_bytes(const Config& config) {
  const diloco::Layout layout(intra::parameter_tensors(config.model));
  const intra::CodecPolicy policy(config.codec, layout);
  std::vector<float> delta(layout.size()), residual(layout.size());
  std::mt19937 random(7);
  for (float& value : delta) value = std::normal_distribution<float>(0, 1e-3F)(random);
  std::vector<std::vector<std::byte>> bytes(layout.segments().size());
  std::vector<compression::EncodedSegment> segments;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const diloco::Segment& segment = layout.segments()[i];
    const auto encoded =
        policy.encode(i, std::span(delta).subspan(segment.offset, segment.count),
                      std::span(residual).subspan(segment.offset, segment.count), bytes[i], {});
    segments.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(segment.count),
                        encoded.codec, bytes[i]});
  }
  return compression::write_payload(policy.specs(), segments).size();
}

class SpoolNeedOf : public testing::TestWithParam<std::string> {};

// Of a codec whose encodings all have one size it is that size, but for a few bytes of headers.
TEST_P(SpoolNeedOf, PayloadsIsWhatTheyTakeAtMost) {
  const Config config = load_text(kSmallConfig, {"codec.matrix='" + GetParam() + "'"});
  const std::uint64_t real = real_payload_bytes(config);
  const std::uint64_t need = spool_need(config).payload_bytes;
  EXPECT_THAT(need, Ge(real));
  EXPECT_THAT(need, Le(real + real / 4));
  if (GetParam().starts_with("dense")) {
    EXPECT_THAT(need, Le(real + 200));
  }
}
INSTANTIATE_TEST_SUITE_P(Codecs, SpoolNeedOf,
                         testing::Values("dense:fp32", "dense:int8,block=128", "dense:int4",
                                         "topk:k=64,value=2bit,index=rice"));

TEST(SpoolNeed, SnapshotIsWhatOneTakes) {
  const Config config = load_text(kSmallConfig);
  const TemporaryDirectory directory;
  const diloco::Layout layout(intra::parameter_tensors(config.model));
  const std::filesystem::path snapshot = directory.path() / "snapshot";
  intra::write_snapshot(snapshot, layout, intra::OuterState(layout));
  const std::uint64_t real = std::filesystem::file_size(snapshot);
  const std::uint64_t need = spool_need(config).snapshot_bytes;
  EXPECT_THAT(need, AllOf(Ge(real), Le(real + 10'000)));
}

TEST(SpoolNeed, CountsTheRoundsBetweenSnapshotsOrThoseThatMayComeLate) {
  const auto rounds = [](const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"train.steps=20000"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return spool_need(load_text(kSmallConfig, overrides)).rounds;
  };
  EXPECT_EQ(rounds({"train.checkpoint_rounds=7"}), 10U);
  EXPECT_EQ(rounds({"train.checkpoint_rounds=1", "sync.staleness_max=5"}), 9U);
  EXPECT_EQ(rounds({"train.checkpoint_rounds=1", "sync.staleness_max=0"}), 5U);
  EXPECT_EQ(rounds({"train.steps=60"}), 3U) << "the run has no more";
}

TEST(SpoolNeed, IsOfAllRegionsAndTwoSnapshots) {
  const SpoolNeed need = spool_need(load_text(kSmallConfig));
  EXPECT_EQ(need.bytes, 2 * need.rounds * need.payload_bytes + 2 * need.snapshot_bytes);
  const SpoolNeed three = spool_need(load_text(kSmallConfig + "[[regions]]\nname = \"north\"\n"));
  EXPECT_EQ(three.bytes, need.bytes + need.rounds * need.payload_bytes);
}

TEST(SpoolNeed, ASpoolThatIsTooSmallIsRefusedWithTheNumberToSet) {
  std::string message;
  try {
    load_text(kSmallConfig, {"sync.spool_gib=0.01"});
  } catch (const ConfigError& error) {
    message = error.what();
  }
  const std::string words = "sync.spool_gib: must be at least ";
  ASSERT_THAT(message, HasSubstr(words));
  ASSERT_THAT(message, HasSubstr("payloads of 10 rounds of 2 regions"));
  EXPECT_THAT(message, HasSubstr("fewer train.checkpoint_rounds need less"));
  const std::string number = message.substr(message.find(words) + words.size(), 5);
  EXPECT_NO_THROW(load_text(kSmallConfig, {"sync.spool_gib=" + number})) << message;
  double gib = 0;
  std::from_chars(number.data(), number.data() + number.size(), gib);
  const std::string less = std::to_string(gib - 0.001);
  EXPECT_THROW(load_text(kSmallConfig, {"sync.spool_gib=" + less}), ConfigError) << message;
}

// ---- A program's own model ----

// Without [model] and [data], as for a program; 20 rounds.
Config program_config(const std::string& spool_gib) {
  return load_text(
      "[train]\nsteps = 200\nk = 10\n[[regions]]\nname = \"east\"\n[[regions]]\nname = "
      "\"west\"\n",
      {"sync.spool_gib=" + spool_gib});
}
const diloco::NamedTensors kTensors{{.name = "weight", .shape = {1000, 1000}},
                                    {.name = "bias", .shape = {1000}}};

TEST(SpoolNeed, OfAProgramIsOfTheTensorsThatItNames) {
  const std::string message = spool_problem_of_program(program_config("0.01"), kTensors, 10);
  EXPECT_THAT(message, testing::StartsWith("sync.spool_gib: must be at least 0.0"));
  EXPECT_THAT(message, HasSubstr("payloads of 13 rounds of 2 regions"));
  EXPECT_THAT(message, HasSubstr("fewer save_rounds in this region's program need less"));
  const std::string number = message.substr(message.find("least ") + 6, 5);
  EXPECT_EQ(spool_problem_of_program(program_config(number), kTensors, 10), "") << message;
  double gib = 0;
  std::from_chars(number.data(), number.data() + number.size(), gib);
  const Config less = program_config(std::to_string(gib - 0.001));
  EXPECT_NE(spool_problem_of_program(less, kTensors, 10), "") << message;
}

TEST(SpoolNeed, OfAProgramIsThatOfTheSameModelHere) {
  const Config config = load_text(kSmallConfig);
  diloco::NamedTensors tensors;
  for (const diloco::TensorSpec& spec : intra::parameter_tensors(config.model))
    tensors.push_back({.name = spec.name, .shape = spec.shape});
  Config less = config;
  less.sync.spool_bytes_max = spool_need(config).bytes - 1;
  EXPECT_EQ(spool_problem_of_program(config, tensors, 10), "");
  EXPECT_NE(spool_problem_of_program(less, tensors, 10), "");
  EXPECT_NE(spool_problem_of_program(less, tensors, 0), "") << "train.checkpoint_rounds is 10";
  EXPECT_EQ(spool_problem_of_program(less, tensors, 1), "") << "it saves more often";
}

TEST(SpoolNeed, OfTensorsThatCannotBeIsNotCounted) {
  const Config config = program_config("0.001");
  EXPECT_EQ(spool_problem_of_program(config, {{.name = "a", .shape = {1'000'000, -1}}}, 1), "");
  EXPECT_EQ(spool_problem_of_program(config, {{.name = "a", .shape = {1 << 30, 1 << 30}}}, 1), "");
  const diloco::NamedTensor twice{.name = "a", .shape = {1'000'000}};
  EXPECT_EQ(spool_problem_of_program(config, {twice, twice}, 1), "");
}

TEST(SpoolNeed, FewerCheckpointRoundsAreAdvisedOnlyIfTheyHelp) {
  try {
    load_text(kSmallConfig, {"sync.spool_gib=0.01", "sync.staleness_max=20"});
    FAIL() << "a spool that is too small";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("train.checkpoint_rounds")));
  }
}

}  // namespace
}  // namespace causeway::run
