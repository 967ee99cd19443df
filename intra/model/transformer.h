// The network in steps: embed, blocks, classify, and the same backwards. One step at a time per
// object.
//
//   x = embedding;  for each block:  x += attention(norm(x));  x += mlp(norm(x));   loss =
//   cross_entropy(head(norm(x)))
#pragma once

#include <span>
#include <vector>

#include "intra/model/buffers.h"
#include "intra/model/gemm.h"
#include "intra/model/model.h"
#include "intra/model/network.h"

namespace causeway::intra {

class Transformer : public Model {
 public:
  explicit Transformer(const ModelOptions& options);

  const ModelOptions& options() const override { return options_; }
  const diloco::Layout& layout() const override { return layout_; }
  void initialise(std::uint64_t seed, std::span<float> params) const override;
  float train(const Batch& batch, const DropoutKey& dropout, float scale,
              std::span<const float> params, std::span<float> gradients,
              const GradientReady& ready) override;
  void clear_gradients(std::span<float> gradients) override;
  void params_changed() override { weights_are_stale_ = true; }
  void params_changed(std::span<const float> params, std::size_t begin, std::size_t end) override;
  std::uint64_t allocated_bytes() const;  // so far, as working_bytes()
  float evaluate(const Batch& batch, std::span<const float> params) override;
  std::vector<float> next_token_logits(std::span<const std::int32_t> tokens,
                                       std::span<const float> params) override;

 private:
  // Where dropout happens, numbered through the network.
  enum class Site : std::uint32_t { embedding, attention, attention_branch, mlp_branch };

  void begin(std::int64_t batch, std::int64_t length, std::span<const float> params,
             const DropoutKey& key, float probability);
  void refresh_weights();

  // forward.cc
  void forward(std::span<const std::int32_t> tokens);
  void embed(std::span<const std::int32_t> tokens);
  void forward_attention(std::size_t layer);
  void forward_mlp(std::size_t layer);
  void apply_linear(const Linear& linear, std::int64_t rows, const void* x, float* y);
  void add_and_normalise(const float* x, float* branch, DropoutMask mask, const Norm& norm,
                         float* sum, float* statistics, void* normalised);
  double loss(std::span<const std::int32_t> targets);

  // backward.cc
  double loss_and_gradient(std::span<const std::int32_t> targets, float scale);
  void classify_rows(std::int64_t first, std::int64_t rows, std::span<const std::int32_t> targets,
                     float scale);
  void backward_blocks();
  void backward_mlp(std::size_t layer);
  void backward_attention(std::size_t layer);
  void backward_embedding(std::span<const std::int32_t> tokens);
  struct Gradient {
    const float* values;
    const void* operand;
  };
  void backward_linears(std::span<const Linear> linears, const void* x, Gradient dy, float* dx);
  void backward_bias(const Linear& linear, const float* dy);
  Gradient branch_gradient(DropoutMask mask);
  void backward_norm(const Norm& norm, const float* x, const float* statistics);
  void report(const FlatRange& range);

  // transformer.cc
  DropoutMask mask(Site site, std::size_t layer = 0) const;
  void drop_rows(const DropoutMask& mask, std::int64_t begin, std::int64_t end,
                 float* values) const;
  NormView view(const Norm& norm) const;
  AttentionOptions attention_options(std::size_t layer) const;
  const float* param(const FlatRange& range) const;  // null if the range is empty
  float* grad(const FlatRange& range) const;
  const void* weight(const Linear& linear) const;  // operand
  // The array that an fp32 result bound for `operand` is written to before rounding.
  float* staging(void* operand) const;
  std::int64_t rows() const { return buffers_.shape.rows(); }
  std::int64_t row_grain() const;

  ModelOptions options_;
  diloco::Layout layout_;
  Network network_;
  Products products_;
  Gemm gemm_;
  Buffers buffers_;
  Rotations rotations_;

  // Weight matrices as operands, at their flat offsets; unused with Products::fp32.
  std::vector<std::uint16_t> weights_bf16_;
  std::vector<float> weights_rounded_;
  std::size_t matrices_end_ = 0;
  bool weights_are_stale_ = true;

  // The step in progress.
  std::span<const float> params_;
  std::span<float> gradients_;
  bool adds_to_matrices_ = true;  // their gradients; otherwise these are what nobody cleared
  const GradientReady* ready_ = nullptr;
  DropoutMask dropout_;  // its site is filled in where it is used
  std::uint64_t first_sample_ = 0;
};

}  // namespace causeway::intra
