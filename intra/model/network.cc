#include "intra/model/network.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include <fmt/format.h>

namespace causeway::intra {

Rotations make_rotations(const ModelOptions& options) {
  Rotations tables;
  if (options.family != ModelOptions::Family::llama) return tables;
  const auto half = options.width / options.heads / 2;
  for (std::int64_t position = 0; position < options.context; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * rotation_frequency(options, i);
      tables.cosine.push_back(static_cast<float>(std::cos(angle)));
      tables.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return tables;
}

namespace {

// Rows a large power of two apart fall into the same few cache sets, and the products that walk
// down a column lose up to a third of their speed. One more cache line breaks the pattern (two in
// fp32: operands may be 16 bits wide).
std::int64_t spread_stride(std::int64_t width) {
  return width % 128 == 0 ? width + 32 : width;
}

FlatRange range_of(const diloco::PlacedTensor& tensor) {
  return {tensor.offset, tensor.spec.count()};
}

Linear linear(const diloco::Layout& layout, const std::string& name, bool bias) {
  const auto& weight = layout.find(name + ".weight");
  Linear result;
  result.weights = {range_of(weight)};
  result.out = weight.spec.shape[0];
  result.in = weight.spec.shape[1];
  result.x_stride = result.in;
  result.y_stride = result.out;
  if (bias) result.bias = range_of(layout.find(name + ".bias"));
  return result;
}

Norm norm(const diloco::Layout& layout, const std::string& name, bool bias) {
  Norm result{range_of(layout.find(name + ".weight")), {}};
  if (bias) result.bias = range_of(layout.find(name + ".bias"));
  return result;
}

// Linear layers without bias that share their input, joined where no padding lies between them.
std::vector<Linear> side_by_side(const diloco::Layout& layout, const std::string& prefix,
                                 std::initializer_list<const char*> names) {
  std::vector<Linear> result;
  std::int64_t column = 0;
  for (const auto* name : names) {
    auto next = linear(layout, prefix + name, false);
    next.column = column;
    column += next.out;
    const auto& weight = next.weights.front();
    if (!result.empty() &&
        result.back().weights.back().offset + result.back().weights.back().count == weight.offset) {
      result.back().weights.push_back(weight);
      result.back().out += next.out;
    } else {
      result.push_back(std::move(next));
    }
  }
  return result;
}

Block gpt2_block(const diloco::Layout& layout, const std::string& prefix) {
  return {.attention_norm = norm(layout, prefix + "ln_1", true),
          .qkv = {linear(layout, prefix + "attn.c_attn", true)},
          .attention_out = linear(layout, prefix + "attn.c_proj", true),
          .mlp_norm = norm(layout, prefix + "ln_2", true),
          .mlp_in = {linear(layout, prefix + "mlp.c_fc", true)},
          .mlp_out = linear(layout, prefix + "mlp.c_proj", true)};
}

Block llama_block(const diloco::Layout& layout, const std::string& prefix) {
  return {.attention_norm = norm(layout, prefix + "input_layernorm", false),
          .qkv = side_by_side(layout, prefix + "self_attn.", {"q_proj", "k_proj", "v_proj"}),
          .attention_out = linear(layout, prefix + "self_attn.o_proj", false),
          .mlp_norm = norm(layout, prefix + "post_attention_layernorm", false),
          .mlp_in = side_by_side(layout, prefix + "mlp.", {"gate_proj", "up_proj"}),
          .mlp_out = linear(layout, prefix + "mlp.down_proj", false)};
}

}  // namespace

Network::Network(const ModelOptions& options, const diloco::Layout& layout, RowStride rows) {
  const auto row_stride = [rows](std::int64_t width) {
    return rows == RowStride::packed ? width : spread_stride(width);
  };
  const bool gpt2 = options.family == ModelOptions::Family::gpt2;
  tied_head = gpt2 || options.tied_head;
  const std::string embedding = gpt2 ? "transformer.wte" : "model.embed_tokens";
  token_embedding = range_of(layout.find(embedding + ".weight"));
  if (gpt2) position_embedding = range_of(layout.find("transformer.wpe.weight"));
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto index = fmt::format("{}.", layer);
    blocks.push_back(gpt2 ? gpt2_block(layout, "transformer.h." + index)
                          : llama_block(layout, "model.layers." + index));
  }
  final_norm = norm(layout, gpt2 ? "transformer.ln_f" : "model.norm", gpt2);
  head = linear(layout, tied_head ? embedding : "lm_head", false);
  const auto kv_width = options.width / options.heads * options.kv_heads;
  qkv_stride = row_stride(options.width + 2 * kv_width);
  mlp_in_stride = row_stride(gpt2 ? options.hidden : 2 * options.hidden);
  hidden_stride = row_stride(options.hidden);
  for (auto& block : blocks) {
    for (auto& linear : block.qkv) linear.y_stride = qkv_stride;
    for (auto& linear : block.mlp_in) linear.y_stride = mlp_in_stride;
    block.mlp_out.x_stride = hidden_stride;
  }
}

std::vector<FlatRange> Network::weights() const {
  std::vector<FlatRange> all;
  const auto append = [&all](const Linear& linear) {
    all.insert(all.end(), linear.weights.begin(), linear.weights.end());
  };
  for (const Block& block : blocks) {
    std::ranges::for_each(block.qkv, append);
    append(block.attention_out);
    std::ranges::for_each(block.mlp_in, append);
    append(block.mlp_out);
  }
  append(head);
  std::ranges::sort(all, {}, &FlatRange::offset);
  return all;
}

}  // namespace causeway::intra
