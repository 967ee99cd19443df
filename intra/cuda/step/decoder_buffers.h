// Everything a step keeps in device memory besides parameters and gradients. Rows are tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "intra/base/arena.h"
#include "intra/cuda/step/decoder.h"
#include "intra/model/network.h"

namespace causeway::intra::cuda {

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
struct DecoderBuffers {
  void lay_out(const DecoderOptions& options, const Network& network, const Rows& rows,
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

}  // namespace causeway::intra::cuda
