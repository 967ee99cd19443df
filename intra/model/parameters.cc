// The parameter list, the checks on a model's settings, and the cost of a step.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "intra/base/error.h"
#include "intra/model/kernels/kernels.h"
#include "intra/model/kernels/parallel.h"
#include "intra/model/kernels/philox.h"
#include "intra/model/model.h"

namespace causeway::intra {
namespace {

using Family = ModelOptions::Family;

[[noreturn]] void refuse_model(const std::string& why) {
  throw std::system_error(Errc::bad_model, why);
}

// Far above any model that fits one host; they keep products of settings from a foreign checkpoint
// within 64 bits.
void check_range(const char* name, std::int64_t value, std::int64_t largest) {
  if (value < 1 || value > largest) {
    refuse_model(fmt::format("model.{} is {}; it must be from 1 to {}", name, value, largest));
  }
}

void check_heads(const ModelOptions& options) {
  const auto heads = std::to_string(options.heads), kv_heads = std::to_string(options.kv_heads);
  if (options.width % options.heads != 0) {
    refuse_model(fmt::format("model.width is {}, which is not a multiple of model.heads, {}",
                             options.width, heads));
  }
  if (options.family == Family::gpt2) {
    if (options.kv_heads != options.heads) {
      refuse_model("model.kv_heads is " + kv_heads +
                   " but the gpt2 family has no grouped queries: set it to model.heads, " + heads);
    }
    return;
  }
  if (options.heads % options.kv_heads != 0) {
    refuse_model("model.heads is " + heads + ", which is not a multiple of model.kv_heads, " +
                 kv_heads);
  }
  if (options.width / options.heads % 2 != 0) {
    refuse_model(fmt::format(
        "a head is model.width / model.heads = {} wide; rotary positions need an even number",
        options.width / options.heads));
  }
}

void check_reals(const ModelOptions& options) {
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    refuse_model(
        fmt::format("model.dropout is {:f}; it must be at least 0 and below 1", options.dropout));
  }
  if (!(options.norm_epsilon > 0 && options.norm_epsilon < 1)) {
    refuse_model(fmt::format("model.norm_epsilon is {:f}; it must be between 0 and 1",
                             options.norm_epsilon));
  }
  if (!(options.rope_theta > 0 && std::isfinite(options.rope_theta))) {
    refuse_model(fmt::format("model.rope_theta is {:f}; it must be positive", options.rope_theta));
  }
  const auto& scaling = options.rope_scaling;
  if (!(scaling.factor >= 1 && std::isfinite(scaling.factor) && scaling.low_frequency_factor > 0 &&
        scaling.high_frequency_factor > scaling.low_frequency_factor &&
        std::isfinite(scaling.high_frequency_factor))) {
    refuse_model(
        fmt::format("the scaling of rotary positions is impossible: factor {:f} must be at least "
                    "1, and 0 < low_freq_factor < high_freq_factor",
                    scaling.factor));
  }
}

void check(const ModelOptions& options) {
  check_range("vocabulary", options.vocabulary, std::int64_t{1} << 24);
  check_range("context", options.context, std::int64_t{1} << 20);
  check_range("layers", options.layers, 1024);
  check_range("width", options.width, std::int64_t{1} << 16);
  check_range("heads", options.heads, std::int64_t{1} << 10);
  check_range("kv_heads", options.kv_heads, std::int64_t{1} << 10);
  check_range("hidden", options.hidden, std::int64_t{1} << 18);
  check_heads(options);
  check_reals(options);
}

using Tensors = std::vector<diloco::TensorSpec>;

void append_linear(Tensors& tensors, const std::string& name, std::int64_t out, std::int64_t in,
                   bool bias) {
  tensors.push_back({name + ".weight", {out, in}});
  if (bias) tensors.push_back({name + ".bias", {out}});
}

void append_norm(Tensors& tensors, const std::string& name, std::int64_t width, bool bias) {
  tensors.push_back({name + ".weight", {width}});
  if (bias) tensors.push_back({name + ".bias", {width}});
}

Tensors gpt2_tensors(const ModelOptions& options) {
  const auto width = options.width;
  Tensors tensors{{"transformer.wte.weight", {options.vocabulary, width}},
                  {"transformer.wpe.weight", {options.context, width}}};
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto prefix = fmt::format("transformer.h.{}.", layer);
    append_norm(tensors, prefix + "ln_1", width, true);
    append_linear(tensors, prefix + "attn.c_attn", 3 * width, width, true);
    append_linear(tensors, prefix + "attn.c_proj", width, width, true);
    append_norm(tensors, prefix + "ln_2", width, true);
    append_linear(tensors, prefix + "mlp.c_fc", options.hidden, width, true);
    append_linear(tensors, prefix + "mlp.c_proj", width, options.hidden, true);
  }
  append_norm(tensors, "transformer.ln_f", width, true);
  return tensors;
}

Tensors llama_tensors(const ModelOptions& options) {
  const auto width = options.width;
  const auto kv_width = width / options.heads * options.kv_heads;
  Tensors tensors{{"model.embed_tokens.weight", {options.vocabulary, width}}};
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto prefix = fmt::format("model.layers.{}.", layer);
    append_norm(tensors, prefix + "input_layernorm", width, false);
    append_linear(tensors, prefix + "self_attn.q_proj", width, width, false);
    append_linear(tensors, prefix + "self_attn.k_proj", kv_width, width, false);
    append_linear(tensors, prefix + "self_attn.v_proj", kv_width, width, false);
    append_linear(tensors, prefix + "self_attn.o_proj", width, width, false);
    append_norm(tensors, prefix + "post_attention_layernorm", width, false);
    append_linear(tensors, prefix + "mlp.gate_proj", options.hidden, width, false);
    append_linear(tensors, prefix + "mlp.up_proj", options.hidden, width, false);
    append_linear(tensors, prefix + "mlp.down_proj", width, options.hidden, false);
  }
  append_norm(tensors, "model.norm", width, false);
  if (!options.tied_head) append_linear(tensors, "lm_head", options.vocabulary, width, false);
  return tensors;
}

}  // namespace

std::vector<diloco::TensorSpec> parameter_tensors(const ModelOptions& options) {
  check(options);
  return options.family == Family::gpt2 ? gpt2_tensors(options) : llama_tensors(options);
}

double rotation_frequency(const ModelOptions& options, std::int64_t pair) {
  const std::int64_t pairs = options.width / options.heads / 2;
  const double half = static_cast<double>(pairs);
  const double frequency = std::pow(options.rope_theta, -static_cast<double>(pair) / half);
  const auto& scaling = options.rope_scaling;
  if (scaling.original_context == 0) return frequency / scaling.factor;
  // Llama 3.1: by turns within the original context; between the two bounds a mixture.
  const double turns =
      static_cast<double>(scaling.original_context) * frequency / (2 * std::numbers::pi);
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

double flops_per_token(const ModelOptions& options) {
  double multiplied = 0;  // weights that take part in a matrix product
  for (const auto& tensor : parameter_tensors(options)) {
    const bool looked_up = tensor.name == "transformer.wpe.weight" ||
                           (tensor.name == "model.embed_tokens.weight" && !options.tied_head);
    if (tensor.shape.size() == 2 && !looked_up) multiplied += static_cast<double>(tensor.count());
  }
  // Forward, a token multiplies with every weight and, in each layer, its query with on average
  // half of `context` keys and values; backward costs twice as much.
  const double attention = 2.0 * static_cast<double>(options.layers * options.context) *
                           static_cast<double>(options.width) / 2.0;
  return 6.0 * (multiplied + attention);
}

namespace {

constexpr double kDeviation = 0.02;

// FNV-1a.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

void fill_normal(std::uint64_t seed, std::string_view name, double deviation,
                 std::span<float> out) {
  constexpr std::int64_t kTile = 2 * kNormalPairs;
  const auto key = philox_key(mix_bits(seed) ^ hash_name(name));
  const auto count = static_cast<std::int64_t>(out.size());
  parallel_for(count, 32 * kTile, kTile, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto at = begin; at < end; at += kTile) {
      float tile[kTile];
      draw_normal(key, static_cast<std::uint64_t>(at / 2), deviation, tile);
      std::copy_n(tile, std::min(kTile, end - at), out.begin() + at);
    }
  });
}

// The layers whose output is added to the residual stream: their variances add up over the depth.
bool is_residual_projection(std::string_view name) {
  return name.ends_with("c_proj.weight") || name.ends_with("o_proj.weight") ||
         name.ends_with("down_proj.weight");
}

}  // namespace

void initialise_parameters(const ModelOptions& options, const diloco::Layout& layout,
                           std::uint64_t seed, std::span<float> params) {
  assert(params.size() == layout.size());
  std::ranges::fill(params, 0.0F);
  for (const auto& tensor : layout.tensors()) {
    const std::string_view name = tensor.spec.name;
    const auto values = params.subspan(tensor.offset, tensor.spec.count());
    if (tensor.spec.shape.size() > 1) {
      const double depth =
          is_residual_projection(name) ? 2.0 * static_cast<double>(options.layers) : 1.0;
      fill_normal(seed, name, kDeviation / std::sqrt(depth), values);
    } else if (name.ends_with(".weight")) {
      std::ranges::fill(values, 1.0F);
    }
  }
}

}  // namespace causeway::intra
