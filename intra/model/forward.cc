#include <algorithm>
#include <cassert>
#include <numeric>

#include "intra/model/kernels/parallel.h"
#include "intra/model/transformer.h"

namespace causeway::intra {

void Transformer::forward(std::span<const std::int32_t> tokens) {
  assert(static_cast<std::int64_t>(tokens.size()) == rows());
  embed(tokens);
  for (std::size_t layer = 0; layer < network_.blocks.size(); ++layer) {
    forward_attention(layer);
    forward_mlp(layer);
  }
}

// The first residual stream, and its norm.
void Transformer::embed(std::span<const std::int32_t> tokens) {
  const auto width = options_.width, length = buffers_.shape.length;
  const float* by_token = param(network_.token_embedding);
  const float* by_position = param(network_.position_embedding);
  float* out = buffers_.blocks.front().input;
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto row = begin; row < end; ++row) {
      const auto token = tokens[static_cast<std::size_t>(row)];
      assert(token >= 0 && token < options_.vocabulary);
      const float* vector = by_token + token * width;
      if (by_position != nullptr) {
        add(width, vector, by_position + row % length * width, out + row * width);
      } else {
        std::copy_n(vector, width, out + row * width);
      }
    }
    if (dropout_.probability > 0) drop_rows(mask(Site::embedding), begin, end, out);
  });
  const auto& first = buffers_.blocks.front();
  add_and_normalise(out, nullptr, {}, network_.blocks.front().attention_norm, nullptr,
                    first.attention_statistics, first.attention_in);
}

// sum = x + dropout(branch), and its norm as an operand, while the rows are in cache. Without a
// branch: the norm of x.
void Transformer::add_and_normalise(const float* x, float* branch, DropoutMask mask,
                                    const Norm& norm, float* sum, float* statistics,
                                    void* normalised) {
  constexpr std::int64_t kRowsInCache = 8;
  const auto width = options_.width;
  const auto norm_view = view(norm);
  float* staged = staging(normalised);
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t first, std::int64_t last, int) {
    for (auto begin = first; begin < last; begin += kRowsInCache) {
      const auto end = std::min(begin + kRowsInCache, last);
      const auto at = begin * width, count = (end - begin) * width;
      if (branch != nullptr) {
        if (mask.probability > 0) drop_rows(mask, begin, end, branch);
        add(count, x + at, branch + at, sum + at);
      }
      norm_forward(norm_view, end - begin, (branch != nullptr ? sum : x) + at, staged + at,
                   statistics + 2 * begin);
      make_operand(products_, count, staged + at, operand_at(products_, normalised, at));
    }
  });
}

void Transformer::apply_linear(const Linear& linear, std::int64_t rows, const void* x, float* y) {
  gemm_.forward({rows, linear.in, linear.out, linear.x_stride, linear.y_stride}, x, weight(linear),
                param(linear.bias), y + linear.column);
}

void Transformer::forward_attention(std::size_t layer) {
  const auto& block = network_.blocks[layer];
  auto& kept = buffers_.blocks[layer];
  for (const auto& linear : block.qkv) apply_linear(linear, rows(), kept.attention_in, kept.qkv);
  float* staged = staging(kept.attention_out);
  attention_forward(attention_options(layer), kept.qkv, staged, kept.log_sum_exp,
                    buffers_.attention_scratch);
  const auto width = options_.width;
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    make_operand(products_, (end - begin) * width, staged + begin * width,
                 operand_at(products_, kept.attention_out, begin * width));
  });
  apply_linear(block.attention_out, rows(), kept.attention_out, buffers_.branch);
  add_and_normalise(kept.input, buffers_.branch, mask(Site::attention_branch, layer),
                    block.mlp_norm, kept.middle, kept.mlp_statistics, kept.mlp_in);
}

void Transformer::forward_mlp(std::size_t layer) {
  const auto& block = network_.blocks[layer];
  auto& kept = buffers_.blocks[layer];
  for (const auto& linear : block.mlp_in) {
    apply_linear(linear, rows(), kept.mlp_in, kept.hidden_in);
  }
  const auto stride = network_.hidden_stride, in_stride = network_.mlp_in_stride;
  float* staged = staging(kept.hidden);
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    const auto at = begin * stride, count = (end - begin) * stride;
    const float* in = kept.hidden_in + begin * in_stride;
    if (options_.family == ModelOptions::Family::gpt2) {
      gelu_forward(count, in, staged + at);  // what lies between rows, too: one long loop is faster
    } else {
      swiglu_forward(end - begin, options_.hidden, in, in_stride, staged + at, stride);
    }
    make_operand(products_, count, staged + at, operand_at(products_, kept.hidden, at));
  });
  apply_linear(block.mlp_out, rows(), kept.hidden, buffers_.branch);

  const auto mlp_mask = mask(Site::mlp_branch, layer);
  if (layer + 1 < network_.blocks.size()) {
    auto& next = buffers_.blocks[layer + 1];
    add_and_normalise(kept.middle, buffers_.branch, mlp_mask,
                      network_.blocks[layer + 1].attention_norm, next.input,
                      next.attention_statistics, next.attention_in);
  } else {
    add_and_normalise(kept.middle, buffers_.branch, mlp_mask, network_.final_norm, buffers_.output,
                      buffers_.output_statistics, buffers_.head_in);
  }
}

// Sum over all tokens.
double Transformer::loss(std::span<const std::int32_t> targets) {
  assert(static_cast<std::int64_t>(targets.size()) == rows());
  const auto vocabulary = options_.vocabulary;
  for (std::int64_t first = 0; first < rows(); first += buffers_.logit_rows) {
    const auto count = std::min(buffers_.logit_rows, rows() - first);
    apply_linear(network_.head, count,
                 operand_at(products_, buffers_.head_in, first * options_.width), buffers_.logits);
    parallel_for(count, std::max<std::int64_t>(1, 8192 / vocabulary), 1,
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (auto row = begin; row < end; ++row) {
                     const auto target = targets[static_cast<std::size_t>(first + row)];
                     assert(target >= 0 && target < vocabulary);
                     buffers_.row_losses[first + row] =
                         cross_entropy(vocabulary, buffers_.logits + row * vocabulary, target);
                   }
                 });
  }
  return std::accumulate(buffers_.row_losses, buffers_.row_losses + rows(), 0.0);
}

}  // namespace causeway::intra
