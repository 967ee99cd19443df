// The device transformer for one element type; device_transformer.cc has what both directions
// share, device_transformer_forward.cc and device_transformer_backward.cc the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "intra/base/arena.h"
#include "intra/cuda/step/device_transformer.h"
#include "intra/model/network.h"

namespace causeway::intra::cuda {

// Everything a step keeps in device memory besides parameters and gradients. Rows are tokens.
struct Rows {
  std::int64_t batch = 0, length = 0;
  std::int64_t count() const { return batch * length; }
};

// Logits are in rows of whole tiles of the product.
inline std::int64_t logit_stride(const ModelOptions& model) {
  constexpr std::int64_t kTileColumns = 128;
  return (model.vocabulary + kTileColumns - 1) / kTileColumns * kTileColumns;
}

template <typename T>
struct DecoderBlock {
  T* input;                          // (rows, width): the residual stream before the block
  Statistics* attention_statistics;  // (rows)
  T* attention_in;                   // (rows, width): normalised
  T* qkv;                            // (rows, qkv_stride), rotated
  T* attention_out;                  // (rows, width)
  float* log_sum_exp;                // (batch, heads, length)
  T* middle;                         // (rows, width): the residual stream before the feed-forward
  Statistics* mlp_statistics;        // (rows)
  T* mlp_in;                         // (rows, width): normalised
  T* hidden_in;                      // (rows, mlp_in_stride): before the activation
  T* hidden;                         // (rows, hidden_stride): after it
};

template <typename T>
struct DeviceTransformerBuffers {
  void lay_out(const DeviceTransformerOptions& options, const Network& network, const Rows& rows,
               Arena& arena);

  std::int32_t* tokens;   // (rows)
  std::int32_t* targets;  // (rows)
  std::int32_t* order;    // (rows): see TokenGradient
  std::int32_t* sorted;   // (rows)

  std::vector<DecoderBlock<T>> blocks;
  T* output;  // (rows, width): the residual stream after the last block
  Statistics* output_statistics;
  T* head_in;  // (rows, width): normalised

  T* gradient;       // (rows, width): of the residual stream
  T* branch;         // (rows, width): a residual branch's output; the gradient of a norm's output
  T* wide;           // (rows, max(hidden_stride, width))
  T* wide_gradient;  // (rows, max(qkv_stride, mlp_in_stride))
  float* dots;       // (batch, heads, length)
  std::int64_t logit_rows;
  T* logits;                    // (logit_rows, logit_stride)
  float* losses;                // (rows)
  Pack<float>* partials[2];     // of columns: see Stripes
  Pack<float>* token_parts[2];  // see SortedTokens
};

template <typename T>
Pack<T>* packs_of(T* elements) {
  return reinterpret_cast<Pack<T>*>(elements);
}
template <typename T>
const Pack<T>* packs_of(const T* elements) {
  return reinterpret_cast<const Pack<T>*>(elements);
}

template <typename T>
Product product_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  Product product;
  product.element = product.result = kElement<T>;
  product.m = m;
  product.n = n;
  product.k = k;
  return product;
}

template <typename T>
class DeviceTransformerOf final : public DeviceTransformer {
 public:
  DeviceTransformerOf(const DeviceTransformerOptions& options, const diloco::Layout& layout,
                      const TrainingSpans& spans, StepResult* result, Backend& backend);

  void train(const Batch& batch, const DropoutKey& dropout, float scale,
             const Model::GradientReady& ready) override;
  double evaluate(const Batch& batch) override;
  void params_changed() override;
  Bfloat16* weights() override;

 private:
  // Where dropout happens, numbered through the network as in Transformer.
  enum class Site : std::uint32_t { embedding, attention, attention_branch, mlp_branch };
  enum class Work : std::uint64_t { train, evaluate };

  void begin(const Batch& batch, float probability);
  void upload_rows(std::span<const std::int32_t> values, std::int32_t* to);
  void upload_order(std::span<const std::int32_t> tokens);
  void upload_rotation();
  std::uint64_t name_of(Work work) const;

  // device_transformer_forward.cc
  void forward();
  void forward_attention(std::size_t layer);
  void forward_mlp(std::size_t layer);
  void classify(std::int64_t first, std::int64_t count, bool gradients);
  void multiply(const Linear& linear, std::int64_t rows, const T* x, T* y,
                Product::Epilogue epilogue = Product::Epilogue::none, T* before_gelu = nullptr);
  void add_and_normalise(const T* x, const T* branch, const Dropout& dropout, const Norm& norm,
                         T* sum, Statistics* statistics, T* normalised);
  void activate(const DecoderBlock<T>& block);
  void rotate(T* qkv, float direction);

  // device_transformer_backward.cc
  void backward();
  void backward_head();
  void backward_mlp(std::size_t layer);
  void backward_attention(std::size_t layer);
  void backward_embedding();
  // dx of one linear's, or several side by side, weight gradients first.
  void backward_linears(std::span<const Linear> linears, const T* x, const T* dy, T* dx,
                        const T* before_gelu = nullptr);
  void weight_gradient(const Linear& linear, std::int64_t rows, const T* x, const T* dy);
  void bias_gradient(const Linear& linear, const T* dy);
  void fold(std::int64_t stripes, const Pack<float>* partials, const FlatRange& into);
  const T* branch_gradient(const Dropout& dropout);
  void backward_norm(const Norm& norm, const T* x, const Statistics* statistics);
  void report(const FlatRange& range);

  std::int64_t rows() const { return rows_.count(); }
  std::int64_t width_packs() const { return options_.model.width / kPack; }
  bool gpt2() const { return options_.model.family == ModelOptions::Family::gpt2; }
  Dropout dropout(Site site, std::size_t layer = 0) const;
  AttentionArrays<T> attention(std::size_t layer) const;
  const float* param(const FlatRange& range) const;  // null if the range is empty
  float* grad(const FlatRange& range) const;
  const T* weight(const FlatRange& range) const;

  DeviceTransformerOptions options_;
  TrainingSpans spans_;
  StepResult* result_;
  Backend& backend_;
  Network network_;
  std::size_t params_count_;
  T* weights_ = nullptr;  // of bf16 alone
  BatchScalars* scalars_;
  StepResult* evaluation_;
  Pack<float>* cosine_ = nullptr;
  Pack<float>* sine_ = nullptr;
  std::byte* memory_;
  DeviceTransformerBuffers<T> buffers_;

  // The step in progress.
  Rows rows_;
  float dropout_ = 0;
  const Model::GradientReady* ready_ = nullptr;
};

}  // namespace causeway::intra::cuda
