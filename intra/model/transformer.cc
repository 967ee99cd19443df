#include "intra/model/transformer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>

#include "intra/model/kernels/parallel.h"
#include "intra/model/model.h"
#include "intra/model/network.h"

namespace causeway::intra {
namespace {

std::size_t end_of_matrices(const diloco::Layout& layout) {
  std::size_t end = 0;
  for (const auto& tensor : layout.tensors()) {
    if (tensor.spec.shape.size() > 1) end = std::max(end, tensor.offset + tensor.spec.count());
  }
  return end;
}

// Lengths that generation runs at: few, so that few shapes are prepared. Causal attention ignores
// what follows the last token.
std::int64_t generation_length(std::int64_t tokens, std::int64_t context) {
  constexpr std::int64_t kStep = 32;
  return std::min(context, (tokens + kStep - 1) / kStep * kStep);
}

}  // namespace

Transformer::Transformer(const ModelOptions& options)
    : options_(options),
      layout_(parameter_tensors(options)),
      network_(options, layout_),
      products_(choose_products(options.precision)),
      gemm_(products_),
      buffers_(options_, network_, products_),
      rotations_(make_rotations(options)),
      matrices_end_(end_of_matrices(layout_)) {
  if (products_ == Products::bf16) weights_bf16_.resize(matrices_end_);
  if (products_ == Products::bf16_emulated) weights_rounded_.resize(matrices_end_);
}

std::uint64_t working_bytes(const ModelOptions& options, std::int64_t batch, std::int64_t length) {
  ask_only_for_threads_that_are_granted();
  const diloco::Layout layout(parameter_tensors(options));
  const Network network(options, layout);
  const Products products = choose_products(options.precision);
  const std::size_t rounded = products == Products::fp32 ? 0 : end_of_matrices(layout);
  return Buffers::bytes(options, network, products, {batch, length, thread_count()}) +
         rounded * operand_bytes(products);
}

std::uint64_t Transformer::allocated_bytes() const {
  return buffers_.allocated_bytes() + std::span(weights_bf16_).size_bytes() +
         std::span(weights_rounded_).size_bytes();
}

void Transformer::initialise(std::uint64_t seed, std::span<float> params) const {
  initialise_parameters(options_, layout_, seed, params);
}

void Transformer::begin(std::int64_t batch, std::int64_t length, std::span<const float> params,
                        const DropoutKey& key, float probability) {
  ask_only_for_threads_that_are_granted();
  assert(batch > 0 && length > 0 && length <= options_.context);
  assert(params.size() == layout_.size());
  params_ = params;
  first_sample_ = key.first_sample;
  dropout_ = {.key = dropout_key(key), .site = 0, .probability = probability};
  buffers_.prepare({batch, length, thread_count()});
  refresh_weights();
}

void Transformer::refresh_weights() {
  if (products_ == Products::fp32 || !weights_are_stale_) return;
  parallel_for(static_cast<std::int64_t>(matrices_end_), 1 << 16, 64,
               [this](std::int64_t begin, std::int64_t end, int) {
                 params_changed(params_, static_cast<std::size_t>(begin),
                                static_cast<std::size_t>(end));
               });
  weights_are_stale_ = false;
}

void Transformer::params_changed(std::span<const float> params, std::size_t begin,
                                 std::size_t end) {
  end = std::min(end, matrices_end_);
  if (products_ == Products::fp32 || begin >= end) return;
  void* const operands = products_ == Products::bf16 ? static_cast<void*>(weights_bf16_.data())
                                                     : weights_rounded_.data();
  make_operand(products_, static_cast<std::int64_t>(end - begin), params.data() + begin,
               operand_at(products_, operands, static_cast<std::int64_t>(begin)));
}

void Transformer::clear_gradients(std::span<float> gradients) {
  assert(gradients.size() == layout_.size());
  std::size_t begin = 0;
  const auto clear_until = [&](std::size_t end) {
    parallel_for(static_cast<std::int64_t>(end - begin), 1 << 16, 1024,
                 [&](std::int64_t from, std::int64_t to, int) {
                   std::fill_n(gradients.data() + begin + from, to - from, 0.0F);
                 });
  };
  for (const FlatRange& weight : network_.weights()) {
    clear_until(weight.offset);
    begin = weight.offset + weight.count;
  }
  clear_until(gradients.size());
  adds_to_matrices_ = false;
}

float Transformer::train(const Batch& batch, const DropoutKey& dropout, float scale,
                         std::span<const float> params, std::span<float> gradients,
                         const GradientReady& ready) {
  assert(gradients.size() == layout_.size());
  gradients_ = gradients;
  ready_ = &ready;
  begin(batch.batch, batch.length, params, dropout, options_.dropout);
  forward(batch.tokens);
  const double sum = loss_and_gradient(batch.targets, scale / static_cast<float>(rows()));
  backward_blocks();
  backward_embedding(batch.tokens);
  adds_to_matrices_ = true;
  return static_cast<float>(sum / static_cast<double>(rows()));
}

float Transformer::evaluate(const Batch& batch, std::span<const float> params) {
  begin(batch.batch, batch.length, params, {}, 0);
  forward(batch.tokens);
  return static_cast<float>(loss(batch.targets) / static_cast<double>(rows()));
}

std::vector<float> Transformer::next_token_logits(std::span<const std::int32_t> tokens,
                                                  std::span<const float> params) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  assert(count > 0 && count <= options_.context);
  std::vector<std::int32_t> sequence(tokens.begin(), tokens.end());
  sequence.resize(static_cast<std::size_t>(generation_length(count, options_.context)));
  begin(1, static_cast<std::int64_t>(sequence.size()), params, {}, 0);
  forward(sequence);
  std::vector<float> logits(static_cast<std::size_t>(options_.vocabulary));
  const auto* last = operand_at(products_, static_cast<const void*>(buffers_.head_in),
                                (count - 1) * options_.width);
  apply_linear(network_.head, 1, last, logits.data());
  return logits;
}

DropoutMask Transformer::mask(Site site, std::size_t layer) const {
  constexpr std::uint32_t kSitesPerLayer = 3;
  auto result = dropout_;
  result.site =
      static_cast<std::uint32_t>(site) + kSitesPerLayer * static_cast<std::uint32_t>(layer);
  return result;
}

// Rows [begin, end) of (rows, width); a row's elements are numbered within its sequence and padded
// to whole tiles.
void Transformer::drop_rows(const DropoutMask& mask, std::int64_t begin, std::int64_t end,
                            float* values) const {
  const auto row_elements = (options_.width + kDropoutTile - 1) / kDropoutTile * kDropoutTile;
  const auto length = buffers_.shape.length;
  for (auto row = begin; row < end; ++row) {
    apply_dropout(mask, first_sample_ + static_cast<std::uint64_t>(row / length),
                  row % length * row_elements, options_.width, values + row * options_.width);
  }
}

NormView Transformer::view(const Norm& norm) const {
  return {param(norm.weight), param(norm.bias), options_.width,
          static_cast<float>(options_.norm_epsilon)};
}

AttentionOptions Transformer::attention_options(std::size_t layer) const {
  Rotation rotation;
  if (!rotations_.cosine.empty()) {
    rotation = {rotations_.cosine.data(), rotations_.sine.data(), 1};
  }
  return {buffers_.attention, rotation, mask(Site::attention, layer), first_sample_};
}

const float* Transformer::param(const FlatRange& range) const {
  return range.count == 0 ? nullptr : params_.data() + range.offset;
}

float* Transformer::grad(const FlatRange& range) const {
  return range.count == 0 ? nullptr : gradients_.data() + range.offset;
}

const void* Transformer::weight(const Linear& linear) const {
  const auto offset = linear.weights.front().offset;
  switch (products_) {
    case Products::bf16:
      return weights_bf16_.data() + offset;
    case Products::bf16_emulated:
      return weights_rounded_.data() + offset;
    case Products::fp32:
      break;
  }
  return params_.data() + offset;
}

float* Transformer::staging(void* operand) const {
  return products_ == Products::bf16 ? buffers_.wide : static_cast<float*>(operand);
}

std::int64_t Transformer::row_grain() const {
  constexpr std::int64_t kElements = 16'384;  // some ten microseconds of element-wise work
  return std::max<std::int64_t>(1, kElements / options_.width);
}

std::unique_ptr<Model> make_model(const ModelOptions& options) {
  auto model = std::make_unique<Transformer>(options);
  if (options.precision == ModelOptions::Precision::bf16 &&
      choose_products(options.precision) == Products::bf16_emulated) {
    spdlog::info(
        "model.precision is bf16, but this CPU multiplies no bfloat16 (AVX512_BF16 or AMX): "
        "rounding operands to bfloat16 and "
        "multiplying in fp32, with the same results at fp32 speed");
  }
  return model;
}

}  // namespace causeway::intra
