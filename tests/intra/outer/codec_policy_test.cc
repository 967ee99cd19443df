#include "intra/outer/codec_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

const diloco::Layout& policy_layout() {
  static const diloco::Layout small({{"embed.weight", {16, 256}},
                                     {"blocks.0.up.weight", {64, 64}},
                                     {"blocks.0.norm.weight", {64}},
                                     {"blocks.1.up.weight", {64, 64}}});
  return small;
}

CodecOptions sparse() {
  CodecOptions options;
  options.matrix = "topk:k=64";
  return options;
}

std::vector<float> gaussian(std::size_t count) {
  std::mt19937_64 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(engine); });
  return values;
}

// Segments: embed, blocks.0.up, blocks.1.up, then all vectors.
std::string spec_of(const CodecPolicy& policy, std::size_t segment) {
  const std::vector<float> delta(policy_layout().segments()[segment].count);
  std::vector<float> residual(delta.size());
  std::vector<std::byte> out;
  return policy.specs()[policy.encode(segment, delta, residual, out, {}).codec];
}

std::string refusal_of(const CodecOptions& options) {
  try {
    const CodecPolicy policy(options, policy_layout());
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_model);
    return error.what();
  }
  return "accepted";
}

TEST(CodecPolicy, MatricesTakeTheFirstPatternThatMatchesOrTheirDefault) {
  CodecOptions options = sparse();
  options.tensors = {{"blocks.0.*", "dense:int4"}, {"blocks.*", "topk:k=128"}};
  const CodecPolicy policy(options, policy_layout());
  EXPECT_EQ(spec_of(policy, 0), "topk:k=64,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(spec_of(policy, 1), "dense:int4,block=64");
  EXPECT_EQ(spec_of(policy, 2), "topk:k=128,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(spec_of(policy, 3), "dense:int8,block=128");
}

TEST(CodecPolicy, RefusesAPatternThatMatchesNothingAndNamesWhatThereIs) {
  CodecOptions options = sparse();
  options.tensors = {{"block.*", "dense:int4"}};
  const std::string why = refusal_of(options);
  EXPECT_NE(why.find("\"block.*\" in codec.tensors matches no tensor"), std::string::npos) << why;
  EXPECT_NE(why.find("blocks.0.up.weight"), std::string::npos) << why;
}

TEST(CodecPolicy, RefusesAPatternForVectorsAlone) {
  CodecOptions options = sparse();
  options.tensors = {{"*norm*", "dense:int4"}};
  EXPECT_NE(refusal_of(options).find("vectors only"), std::string::npos);
}

TEST(CodecPolicy, RefusesSparseWithoutFeedbackAnywhere) {
  CodecOptions options;
  options.feedback = false;
  options.tensors = {{"embed*", "topk:k=64"}};
  EXPECT_NE(refusal_of(options).find("codec.tensors"), std::string::npos);
  options.tensors.clear();
  options.error_max = 0.5;
  options.step_up = {"topk:k=512"};
  EXPECT_NE(refusal_of(options).find("codec.step_up"), std::string::npos);
}

TEST(CodecPolicy, RunsSparseWithoutFeedbackWhenForced) {
  CodecOptions options = sparse();
  options.feedback = false;
  EXPECT_NE(refusal_of(options).find("codec.matrix"), std::string::npos);
  options.force = true;
  EXPECT_EQ(refusal_of(options), "accepted");
}

TEST(CodecPolicy, TellsWhatEncodingTakes) {
  const std::uint64_t largest = policy_layout().segments()[0].count;
  const auto floats_of = [](const CodecOptions& options) {
    return CodecPolicy(options, policy_layout()).working_bytes(policy_layout()) / sizeof(float);
  };
  CodecOptions options = sparse();
  EXPECT_EQ(floats_of(options), 0U);  // by chunk
  options.matrix = "topk:k=64,index=rice";
  EXPECT_EQ(floats_of(options), 2 * largest);
  options.error_max = 0.5;
  options.step_up = {"dense:int8"};
  EXPECT_EQ(floats_of(options), 3 * largest);  // and the residual, for another try
}

TEST(CodecPolicy, StepsUpUntilTheErrorIsWithinTheBound) {
  const std::vector<float> delta = gaussian(4096);
  for (const double bound : {0.95, 0.6, 0.05, 1e-3}) {
    CodecOptions options = sparse();
    options.error_max = bound;
    options.step_up = {"topk:k=512", "dense:int4", "dense:int8", "dense:fp32"};
    const CodecPolicy policy(options, policy_layout());
    std::vector<float> residual(delta.size());
    std::vector<std::byte> out(3);
    const auto encoded = policy.encode(1, delta, residual, out, {});
    EXPECT_LE(encoded.stats.relative_squared_error(), bound);
    EXPECT_EQ(encoded.stepped_up, bound < 0.9);
    // What is left is what the codec that was used leaves, and nothing of those tried before.
    const auto codec = compression::make_codec(policy.specs()[encoded.codec]);
    std::vector<float> alone(delta.size());
    std::vector<std::byte> bytes(3);
    compression::encode_with_feedback(*codec, delta, options.feedback_decay, alone, bytes);
    EXPECT_EQ(residual, alone);
    EXPECT_EQ(out, bytes);
  }
}

TEST(CodecPolicy, TakesTheLastStepWhenNoneHoldsTheBound) {
  CodecOptions options = sparse();
  options.error_max = 1e-6;
  options.step_up = {"topk:k=128", "dense:2bit"};
  const CodecPolicy policy(options, policy_layout());
  const std::vector<float> delta = gaussian(4096);
  std::vector<float> residual(delta.size());
  std::vector<std::byte> out;
  const auto encoded = policy.encode(0, delta, residual, out, {});
  EXPECT_EQ(policy.specs()[encoded.codec], "dense:2bit");
  EXPECT_GT(encoded.stats.relative_squared_error(), 1e-6);
}

}  // namespace
}  // namespace causeway::intra
