#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "intra/base/error.h"
#include "intra/model/model.h"
#include "tests/intra/model/tiny_models.h"

namespace causeway::intra {
namespace {

using testing::HasSubstr;

std::vector<std::string> names(const ModelOptions& options) {
  std::vector<std::string> result;
  for (const auto& tensor : parameter_tensors(options)) result.push_back(tensor.name);
  return result;
}

void expect_refused(ModelOptions options, const std::function<void(ModelOptions&)>& change,
                    const std::string& message) {
  change(options);
  try {
    make_model(options);
    FAIL() << "accepted; expected: " << message;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_model);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(ParameterTensors, UseHuggingFaceNamesForGpt2) {
  auto options = tiny::gpt2();
  options.layers = 1;
  EXPECT_THAT(
      names(options),
      testing::ElementsAre("transformer.wte.weight", "transformer.wpe.weight",
                           "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias",
                           "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias",
                           "transformer.h.0.attn.c_proj.weight", "transformer.h.0.attn.c_proj.bias",
                           "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
                           "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_fc.bias",
                           "transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias",
                           "transformer.ln_f.weight", "transformer.ln_f.bias"));
}

TEST(ParameterTensors, UseHuggingFaceNamesForLlama) {
  auto options = tiny::llama();
  options.layers = 1;
  EXPECT_THAT(
      names(options),
      testing::ElementsAre(
          "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
          "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
          "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
          "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight",
          "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
          "model.norm.weight", "lm_head.weight"));
}

TEST(ParameterTensors, CountGpt2SmallAsItsAuthorsDo) {
  const ModelOptions options{.vocabulary = 50'257,
                             .context = 1024,
                             .layers = 12,
                             .width = 768,
                             .heads = 12,
                             .kv_heads = 12,
                             .hidden = 3072};
  EXPECT_EQ(diloco::Layout(parameter_tensors(options)).parameter_count(), 124'439'808U);
}

TEST(ParameterTensors, CountTinyLlamaAsItsAuthorsDo) {
  const ModelOptions options{.family = ModelOptions::Family::llama,
                             .vocabulary = 32'000,
                             .context = 2048,
                             .layers = 22,
                             .width = 2048,
                             .heads = 32,
                             .kv_heads = 4,
                             .hidden = 5632};
  EXPECT_EQ(diloco::Layout(parameter_tensors(options)).parameter_count(), 1'100'048'384U);
}

TEST(ParameterTensors, RefuseImpossibleSettings) {
  expect_refused(
      tiny::gpt2(), [](auto& o) { o.heads = o.kv_heads = 5; },
      "model.width is 12, which is not a multiple of model.heads, 5");
  expect_refused(
      tiny::gpt2(), [](auto& o) { o.kv_heads = 1; }, "no grouped queries");
  expect_refused(
      tiny::llama(), [](auto& o) { o.kv_heads = 3; },
      "model.heads is 4, which is not a multiple of model.kv_heads, 3");
  expect_refused(
      tiny::llama(), [](auto& o) { o.heads = o.kv_heads = 8; }, "even number");
  expect_refused(
      tiny::gpt2(), [](auto& o) { o.layers = 0; }, "model.layers is 0");
  expect_refused(
      tiny::gpt2(), [](auto& o) { o.vocabulary = std::int64_t{1} << 40; }, "model.vocabulary");
  expect_refused(
      tiny::gpt2(), [](auto& o) { o.dropout = 1; }, "model.dropout");
  expect_refused(
      tiny::gpt2(), [](auto& o) { o.norm_epsilon = 0; }, "model.norm_epsilon");
  expect_refused(
      tiny::llama(), [](auto& o) { o.rope_theta = -1; }, "model.rope_theta");
}

TEST(FlopsPerToken, IsSixPerMultipliedWeightPlusAttention) {
  const auto options = tiny::gpt2();  // 2 layers, width 12, hidden 20, context 31, vocabulary 13
  const double weights = 2 * (4 * 12 * 12 + 2 * 12 * 20) + 13 * 12;
  EXPECT_DOUBLE_EQ(flops_per_token(options), 6 * weights + 6 * 2 * 31 * 12);
}

}  // namespace
}  // namespace causeway::intra
