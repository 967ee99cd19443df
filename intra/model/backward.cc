#include <algorithm>
#include <cassert>
#include <numeric>

#include "intra/model/kernels/parallel.h"
#include "intra/model/transformer.h"

namespace causeway::intra {

void Transformer::report(const FlatRange& range) {
  if (*ready_ && range.count > 0) (*ready_)(range.offset, range.count);
}

// Logits, losses and logit gradients of one block of rows; logits_operand holds the gradients.
void Transformer::classify_rows(std::int64_t first, std::int64_t rows,
                                std::span<const std::int32_t> targets, float scale) {
  const auto vocabulary = options_.vocabulary;
  apply_linear(network_.head, rows, operand_at(products_, buffers_.head_in, first * options_.width),
               buffers_.logits);
  parallel_for(rows, std::max<std::int64_t>(1, 8192 / vocabulary), 1,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (auto row = begin; row < end; ++row) {
                   const auto target = targets[static_cast<std::size_t>(first + row)];
                   assert(target >= 0 && target < vocabulary);
                   float* logits = buffers_.logits + row * vocabulary;
                   buffers_.row_losses[first + row] =
                       cross_entropy_with_gradient(vocabulary, logits, target, scale);
                   make_operand(products_, vocabulary, logits,
                                operand_at(products_, buffers_.logits_operand, row * vocabulary));
                 }
               });
}

// Sum of the losses; leaves the gradient of the residual stream after the last block in
// buffers_.gradient.
double Transformer::loss_and_gradient(std::span<const std::int32_t> targets, float scale) {
  assert(static_cast<std::int64_t>(targets.size()) == rows());
  const auto& head = network_.head;
  for (std::int64_t first = 0; first < rows(); first += buffers_.logit_rows) {
    const auto count = std::min(buffers_.logit_rows, rows() - first);
    classify_rows(first, count, targets, scale);
    const LinearShape shape{count, head.in, head.out, head.x_stride, head.y_stride};
    const auto at = first * options_.width;
    gemm_.backward_weight(shape, buffers_.logits_operand,
                          operand_at(products_, buffers_.head_in, at), grad(head.weights.front()),
                          adds_to_matrices_ || first > 0);
    gemm_.backward_input(shape, buffers_.logits_operand, weight(head), buffers_.branch + at, false);
  }
  if (!network_.tied_head) report(head.weights.front());
  std::fill_n(buffers_.gradient, rows() * options_.width, 0.0F);
  backward_norm(network_.final_norm, buffers_.output, buffers_.output_statistics);
  return std::accumulate(buffers_.row_losses, buffers_.row_losses + rows(), 0.0);
}

// buffers_.gradient += the norm's gradient for buffers_.branch.
void Transformer::backward_norm(const Norm& norm, const float* x, const float* statistics) {
  const auto width = options_.width;
  const auto norm_view = view(norm);
  const auto partial = [&](int slot) { return buffers_.norm_partials + 2 * width * slot; };
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int slot) {
    norm_backward(norm_view, end - begin, x + begin * width, statistics + 2 * begin,
                  buffers_.branch + begin * width, buffers_.gradient + begin * width, partial(slot),
                  partial(slot) + width);
  });
  // All slots, in order: those that did no work hold zeros.
  for (int slot = 0; slot < buffers_.shape.slots; ++slot) {
    add(width, grad(norm.weight), partial(slot), grad(norm.weight));
    if (norm.bias.count > 0) add(width, grad(norm.bias), partial(slot) + width, grad(norm.bias));
    std::fill_n(partial(slot), 2 * width, 0.0F);
  }
  report(norm.bias);
  report(norm.weight);
}

void Transformer::backward_blocks() {
  for (auto layer = network_.blocks.size(); layer-- > 0;) {
    backward_mlp(layer);
    backward_attention(layer);
  }
}

// The gradient of a residual branch's output: the residual stream's, through dropout.
Transformer::Gradient Transformer::branch_gradient(DropoutMask mask) {
  const bool drops = mask.probability > 0;
  if (products_ == Products::fp32 && !drops) return {buffers_.gradient, buffers_.gradient};
  const auto width = options_.width;
  float* values = drops ? buffers_.branch : buffers_.gradient;
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    const auto at = begin * width, count = (end - begin) * width;
    if (drops) {
      std::copy_n(buffers_.gradient + at, count, values + at);
      drop_rows(mask, begin, end, values);
    }
    make_operand(products_, count, values + at, operand_at(products_, buffers_.branch_operand, at));
  });
  return {values, buffers_.branch_operand};
}

void Transformer::backward_bias(const Linear& linear, const float* dy) {
  if (linear.bias.count == 0) return;
  float* sums = grad(linear.bias);
  // By columns, so that threads share no sums.
  const auto grain = std::max<std::int64_t>(64, 65'536 / rows());
  parallel_for(linear.out, grain, 16, [&](std::int64_t begin, std::int64_t end, int) {
    add_columns(rows(), end - begin, linear.y_stride, dy + linear.column + begin, sums + begin);
  });
  report(linear.bias);
}

// Linear layers that share the input x, from the last to the first. Weight gradients come first, so
// that they can be sent while dx is computed.
void Transformer::backward_linears(std::span<const Linear> linears, const void* x, Gradient dy,
                                   float* dx) {
  for (auto i = linears.size(); i-- > 0;) {
    const auto& linear = linears[i];
    const LinearShape shape{rows(), linear.in, linear.out, linear.x_stride, linear.y_stride};
    const auto* dy_columns = operand_at(products_, dy.operand, linear.column);
    backward_bias(linear, dy.values);
    gemm_.backward_weight(shape, dy_columns, x, grad(linear.weights.front()), adds_to_matrices_);
    for (auto tensor = linear.weights.rbegin(); tensor != linear.weights.rend(); ++tensor)
      report(*tensor);
    gemm_.backward_input(shape, dy_columns, weight(linear), dx, i + 1 < linears.size());
  }
}

void Transformer::backward_mlp(std::size_t layer) {
  const auto& block = network_.blocks[layer];
  const auto& kept = buffers_.blocks[layer];
  backward_linears({&block.mlp_out, 1}, kept.hidden, branch_gradient(mask(Site::mlp_branch, layer)),
                   buffers_.wide);
  const auto stride = network_.hidden_stride, in_stride = network_.mlp_in_stride;
  float* d_in = buffers_.wide_gradient;
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    const auto at = begin * stride, in_at = begin * in_stride, in_count = (end - begin) * in_stride;
    if (options_.family == ModelOptions::Family::gpt2) {
      gelu_backward(in_count, kept.hidden_in + in_at, buffers_.wide + at, d_in + in_at);
    } else {
      swiglu_backward(end - begin, options_.hidden, kept.hidden_in + in_at, in_stride,
                      buffers_.wide + at, stride, d_in + in_at);
    }
    make_operand(products_, in_count, d_in + in_at,
                 operand_at(products_, buffers_.wide_operand, in_at));
  });
  backward_linears(block.mlp_in, kept.mlp_in, {d_in, buffers_.wide_operand}, buffers_.branch);
  backward_norm(block.mlp_norm, kept.middle, kept.mlp_statistics);
}

void Transformer::backward_attention(std::size_t layer) {
  const auto& block = network_.blocks[layer];
  const auto& kept = buffers_.blocks[layer];
  backward_linears({&block.attention_out, 1}, kept.attention_out,
                   branch_gradient(mask(Site::attention_branch, layer)), buffers_.wide);
  float* d_qkv = buffers_.wide_gradient;
  attention_backward(attention_options(layer), kept.qkv, kept.log_sum_exp, buffers_.wide, d_qkv,
                     buffers_.attention_scratch);
  const auto stride = network_.qkv_stride;
  parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    make_operand(products_, (end - begin) * stride, d_qkv + begin * stride,
                 operand_at(products_, buffers_.wide_operand, begin * stride));
  });
  backward_linears(block.qkv, kept.attention_in, {d_qkv, buffers_.wide_operand}, buffers_.branch);
  backward_norm(block.attention_norm, kept.input, kept.attention_statistics);
}

// Tokens repeat, so rows cannot be split over threads: columns are.
void Transformer::backward_embedding(std::span<const std::int32_t> tokens) {
  const auto width = options_.width, length = buffers_.shape.length;
  if (dropout_.probability > 0) {
    parallel_for(rows(), row_grain(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      drop_rows(mask(Site::embedding), begin, end, buffers_.gradient);
    });
  }
  float* by_token = grad(network_.token_embedding);
  float* by_position = grad(network_.position_embedding);
  const auto grain = std::max<std::int64_t>(64, 65'536 / rows());
  parallel_for(width, grain, 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = 0; row < rows(); ++row) {
      const float* gradient = buffers_.gradient + row * width + begin;
      float* token = by_token + tokens[static_cast<std::size_t>(row)] * width + begin;
      add(end - begin, token, gradient, token);
      if (by_position == nullptr) continue;
      float* position = by_position + row % length * width + begin;
      add(end - begin, position, gradient, position);
    }
  });
  report(network_.position_embedding);
  report(network_.token_embedding);
}

}  // namespace causeway::intra
