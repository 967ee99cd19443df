// A decoder-only transformer with a hand-derived backward pass. Two families: GPT-2 (learned
// positions, LayerNorm, GELU with the tanh approximation, tied head) and Llama (RoPE, RMSNorm,
// SwiGLU, grouped-query attention, no biases; the head may be tied).
//
// Parameters and gradients are flat fp32 spans laid out by diloco::Layout over parameter_tensors();
// names are those Hugging Face uses, so that checkpoints carry over. Linear weights are stored as
// (out, in) for both families.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "diloco/maths/layout.h"

namespace causeway::intra {

// How a published model's rotations were slowed down for contexts longer than it was first trained
// with: all by `factor`, or (original_context > 0) as Llama 3.1 did, only those of few turns within
// the original context.
struct RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;
  std::int64_t original_context = 0;
  bool operator==(const RopeScaling&) const = default;
};

struct ModelOptions {
  enum class Family { gpt2, llama };
  enum class Precision { fp32, bf16 };
  Family family = Family::gpt2;
  std::int64_t vocabulary = 256;
  std::int64_t context = 64;  // longest sequence, T
  std::int64_t layers = 4;
  std::int64_t width = 128;  // C
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;  // llama; divides heads. gpt2: equals heads
  std::int64_t hidden = 512;  // width of the feed-forward layer
  bool tied_head = false;     // llama: the head is the token embedding, as gpt2's always is
  double rope_theta = 10'000.0;
  RopeScaling rope_scaling = {};
  double norm_epsilon = 1e-5;
  float dropout = 0.0F;  // on embeddings, attention weights and residual branches
  Precision precision = Precision::fp32;
};

// In canonical order, deepest-last: the embedding first, then each layer, then the head. Throws
// Errc::bad_model saying which setting is impossible and why.
std::vector<diloco::TensorSpec> parameter_tensors(const ModelOptions& options);

// Radians per position that pair i of a head rotates by; its elements are i and i + head size / 2.
double rotation_frequency(const ModelOptions& options, std::int64_t pair);

// Estimated floating-point operations of one training step per token (forward and backward; 6N +
// attention).
double flops_per_token(const ModelOptions& options);

// A batch of sequences: `tokens` and `targets` are (batch, length) row-major, targets[i] being the
// token after tokens[i].
struct Batch {
  std::span<const std::int32_t> tokens;
  std::span<const std::int32_t> targets;
  std::int64_t batch = 0;
  std::int64_t length = 0;
};

// Keys every random decision of a step, so that it depends on nothing but these and the position of
// the sample.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  // global inner step
  std::uint64_t first_sample =
      0;  // index of the batch's first sample within the step, so that n ranks equal one
};

class Model {
 public:
  // Called during backward when the gradient of flat elements [offset, offset + count) is final.
  // Ranges do not overlap, descend in flat order within matrices, and cover every tensor once.
  using GradientReady = std::function<void(std::size_t offset, std::size_t count)>;

  virtual ~Model() = default;
  virtual const ModelOptions& options() const = 0;
  virtual const diloco::Layout& layout() const = 0;

  // GPT-2 initialisation: normal(0, 0.02), residual projections scaled by 1/sqrt(2 layers), norms
  // one, biases zero. Depends on seed and tensor name alone.
  virtual void initialise(std::uint64_t seed, std::span<float> params) const = 0;

  // Mean loss in nats per token. gradients += scale * d(loss)/d(params); `ready` may be empty.
  // bf16: the weights are rounded from `params` in the first call after params_changed().
  virtual float train(const Batch& batch, const DropoutKey& dropout, float scale,
                      std::span<const float> params, std::span<float> gradients,
                      const GradientReady& ready) = 0;
  // Before train(): as if all of its `gradients` were 0. What it has to write anyway, each matrix
  // as a whole, is not cleared first and read again: at many parameters that takes as long as
  // AdamW.
  virtual void clear_gradients(std::span<float> gradients) {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
  }
  // Must be called whenever `params` changed since the last train/evaluate call.
  virtual void params_changed() = 0;
  // Instead, where only `params` [begin, end) changed since then: they are taken at once. For
  // several threads, with disjoint elements.
  virtual void params_changed(std::span<const float> params, std::size_t begin,
                              std::size_t end) = 0;

  // Mean loss without dropout.
  virtual float evaluate(const Batch& batch, std::span<const float> params) = 0;
  // Logits of the last position of one sequence, (vocabulary).
  virtual std::vector<float> next_token_logits(std::span<const std::int32_t> tokens,
                                               std::span<const float> params) = 0;
};

// Bytes that a model of make_model() allocates for batches of this shape, beside parameters and
// gradients: activations, temporaries of as many threads as there are, rounded weights.
std::uint64_t working_bytes(const ModelOptions& options, std::int64_t batch, std::int64_t length);

std::unique_ptr<Model> make_model(const ModelOptions& options);

// See Model::initialise. Uses exact IEEE operations only, so that every machine draws the same
// bits.
void initialise_parameters(const ModelOptions& options, const diloco::Layout& layout,
                           std::uint64_t seed, std::span<float> params);

}  // namespace causeway::intra
