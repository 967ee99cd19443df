// The keys of the model.
#include "apps/run/config/config_schema.h"
#include "apps/run/config/key_builders.h"

namespace causeway::run {

using C = Keys<Config>;

namespace {

void add_arithmetic_keys(std::vector<Key<Config>>& keys) {
  using Precision = intra::ModelOptions::Precision;
  keys.push_back(of_run(C::number(
      "model.dropout", [](auto& c) -> auto& { return c.model.dropout; }, {0, 1, false, true},
      "Probability of dropping, on embeddings, attention weights and residual branches.")));
  keys.push_back(of_region(C::choice<Precision>(
      "model.precision", [](auto& c) -> auto& { return c.model.precision; },
      {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}},
      "Precision of the matrix products; weights, gradients and optimizer are always kept in "
      "fp32.")));
  keys.push_back(of_run(C::number(
      "model.rope_theta", [](auto& c) -> auto& { return c.model.rope_theta; }, {1, 1e9},
      "Base of the rotary position frequencies (llama).")));
  keys.push_back(of_run(C::boolean(
      "model.tied_head", [](auto& c) -> auto& { return c.model.tied_head; },
      "Use the token embedding as the output head (llama; gpt2 always does).")));
  keys.push_back(of_run(C::number(
      "model.norm_epsilon", [](auto& c) -> auto& { return c.model.norm_epsilon; }, {0, 1, true},
      "Added to the variance in LayerNorm and RMSNorm.")));
}

}  // namespace

void add_model_keys(std::vector<Key<Config>>& keys) {
  using Family = intra::ModelOptions::Family;
  keys.push_back(of_process(defaults_to(
      "none",
      C::directory(
          "model.from", [](auto& c) -> auto& { return c.origin.model; },
          "Directory of a published model to start from (docs/hugging-face.md); the other keys of "
          "[model] may then be left out. Empty: start with random weights drawn from run.seed."))));
  keys.push_back(of_run(C::choice<Family>(
      "model.family", [](auto& c) -> auto& { return c.model.family; },
      {{"gpt2", Family::gpt2}, {"llama", Family::llama}},
      "gpt2: learned positions, LayerNorm, GELU, tied head. llama: RoPE, RMSNorm, SwiGLU, "
      "grouped-query attention.")));
  keys.push_back(of_run(C::integer(
      "model.layers", "", [](auto& c) -> auto& { return c.model.layers; }, 1, 1024,
      "Transformer blocks.")));
  keys.push_back(of_run(C::integer(
      "model.width", "", [](auto& c) -> auto& { return c.model.width; }, 1, 65'536,
      "Width of the residual stream; a multiple of heads.")));
  keys.push_back(of_run(C::integer(
      "model.heads", "", [](auto& c) -> auto& { return c.model.heads; }, 1, 1024,
      "Attention heads.")));
  keys.push_back(defaults_to(
      "heads",
      of_run(C::integer(
          "model.kv_heads", "", [](auto& c) -> auto& { return c.model.kv_heads; }, 0, 1024,
          "Key and value heads, a divisor of heads; gpt2 allows only heads itself. 0: heads."))));
  keys.push_back(defaults_to(
      "from width",
      of_run(C::integer(
          "model.hidden", "", [](auto& c) -> auto& { return c.model.hidden; }, 0, 1 << 20,
          "Width of the feed-forward layer. 0: 4 x width for gpt2, 8/3 x width rounded up to 64 "
          "for llama."))));
  keys.push_back(of_run(C::integer(
      "model.context", "tokens", [](auto& c) -> auto& { return c.model.context; }, 1, 1 << 20,
      "Length of a training sequence.")));
  keys.push_back(of_run(C::integer(
      "model.vocabulary", "tokens", [](auto& c) -> auto& { return c.model.vocabulary; }, 2, 1 << 24,
      "Number of different tokens; 256 for raw text.")));
  add_arithmetic_keys(keys);
}

}  // namespace causeway::run
