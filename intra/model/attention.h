// Causal self-attention of a batch, forward and backward, one head of one sequence at a time in
// packed per-thread scratch: weights exist only for one block of query rows, and the backward pass
// computes them again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intra/model/kernels/kernels.h"

namespace causeway::intra {

struct AttentionShape {
  std::int64_t batch = 0, length = 0;
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t qkv_stride = 0;  // between rows of qkv
};

struct AttentionOptions {
  AttentionShape shape;
  Rotation rotation;  // tables of `length` rows or more; null without rotary positions
  DropoutMask dropout;
  std::uint64_t first_sample = 0;
};

// Floats of scratch that each thread needs; zeroed before the first use with a shape.
std::int64_t attention_scratch_floats(const AttentionShape& shape);

// qkv: rows of (all queries, all keys, all values). out: rows of heads x head_size. log_sum_exp:
// (batch, heads, length), kept for backward. scratch: one piece per slot of parallel_for.
void attention_forward(const AttentionOptions& options, const float* qkv, float* out,
                       float* log_sum_exp, float* scratch);
// d_qkv is overwritten.
void attention_backward(const AttentionOptions& options, const float* qkv, const float* log_sum_exp,
                        const float* d_out, float* d_qkv, float* scratch);

}  // namespace causeway::intra
