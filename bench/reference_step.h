// The peer of train_step.cc: a GPT-2 training step in fp32 written as plain loops under OpenMP, in
// the manner of llm.c's train_gpt2.c: what a programmer gets from a compiler alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "intra/model/model.h"

namespace causeway::bench {

class ReferenceStep {
 public:
  // GPT-2 only. `layout` says where the parameters lie and outlives the object.
  ReferenceStep(const intra::ModelOptions& options, const diloco::Layout& layout,
                std::int64_t batch, std::int64_t length);

  // Mean loss; gradients += d(loss)/d(params).
  float run(const intra::Batch& batch, const float* params, float* gradients);
  // One AdamW step without weight decay.
  void update(std::span<float> params, std::span<const float> gradients);

 private:
  struct Linear {
    std::size_t weight, bias;
    std::int64_t in, out;
  };
  struct Norm {
    std::size_t weight, bias;
  };
  struct Layer {
    Norm norm1, norm2;
    Linear qkv, projection, up, down;
    std::vector<float> input, mean_inverse1, normed1, heads, weights, mixed, middle, mean_inverse2,
        normed2, hidden_in, hidden;
  };

  void forward_layer(Layer& layer, const float* params, std::vector<float>& output);
  void backward_layer(Layer& layer, const float* params, float* gradients);
  void matmul(const Linear& linear, const float* params, const float* x, float* y) const;
  void matmul_backward(const Linear& linear, const float* params, float* gradients, const float* x,
                       const float* dy, float* dx) const;
  void norm(const Norm& norm, const float* params, const float* x, float* y,
            float* mean_inverse) const;
  void norm_backward(const Norm& norm, const float* params, float* gradients, const float* x,
                     const float* mean_inverse, const float* dy, float* dx) const;
  void attention(Layer& layer) const;
  void attention_backward(const Layer& layer, const float* d_mixed, float* d_heads) const;
  float classify(std::span<const std::int32_t> targets);

  intra::ModelOptions options_;
  std::int64_t batch_, length_, rows_;
  std::size_t wte_, wpe_;
  Norm final_norm_;
  Linear head_;
  std::vector<Layer> layers_;
  std::vector<float> output_, final_mean_inverse_, final_normed_, logits_, branch_;
  std::vector<float> d_residual_, d_branch_, d_wide_, d_hidden_, d_heads_;
  std::vector<float> first_moment_, second_moment_;
  int steps_ = 0;
};

}  // namespace causeway::bench
