// Everything a step keeps besides parameters and gradients, in one allocation made once per shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "intra/base/arena.h"
#include "intra/model/gemm.h"
#include "intra/model/kernels/kernels.h"
#include "intra/model/network.h"

namespace causeway::intra {

// Causal self-attention of a batch, forward and backward, one head of one sequence at a time in
// packed per-thread scratch: weights exist only for one block of query rows, and the backward pass
// computes them again.

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

// What the backward pass needs of one block. Rows are tokens; "operand" arrays have the element
// type of the products.
struct BlockBuffers {
  float* input;                 // (rows, width): the residual stream before the block
  float* attention_statistics;  // (rows, 2)
  void* attention_in;           // operand (rows, width): normalised
  float* qkv;                   // (rows, qkv_stride)
  void* attention_out;          // operand (rows, width)
  float* log_sum_exp;           // (batch, heads, length)
  float* middle;                // (rows, width): the residual stream before the feed-forward layer
  float* mlp_statistics;        // (rows, 2)
  void* mlp_in;                 // operand (rows, width): normalised
  float* hidden_in;             // (rows, mlp_in_stride): before the activation
  void* hidden;                 // operand (rows, hidden_stride): after it
};

struct BufferShape {
  std::int64_t batch = 0, length = 0;
  int slots = 0;  // threads
  bool operator==(const BufferShape&) const = default;
  std::int64_t rows() const { return batch * length; }
};

class Buffers {
 public:
  Buffers(const ModelOptions& options, const Network& network, Products products);

  // What prepare() allocates for a shape.
  static std::size_t bytes(const ModelOptions& options, const Network& network, Products products,
                           const BufferShape& shape);

  // Lays everything out for the shape; the contents are undefined after a change of shape.
  void prepare(const BufferShape& shape);

  std::size_t allocated_bytes() const { return capacity_; }

  BufferShape shape;
  AttentionShape attention;
  std::vector<BlockBuffers> blocks;
  float* output;             // (rows, width): the residual stream after the last block
  float* output_statistics;  // (rows, 2)
  void* head_in;             // operand (rows, width): normalised

  // Temporaries, shared by all blocks.
  float* branch;    // (rows, width): output of a residual branch; gradient of a norm's output
  float* wide;      // (rows, max(hidden_stride, width)): fp32 form of an operand; gradient of the
                    // activation
  float* gradient;  // (rows, width): of the residual stream
  void* branch_operand;  // operand (rows, width): gradient of a residual branch
  float* wide_gradient;  // (rows, max(qkv_stride, mlp_in_stride)): of qkv or of hidden_in
  void* wide_operand;    // its operand form; the same array unless operands are 16 bits wide
  float* logits;         // (logit_rows, vocabulary)
  void* logits_operand;  // likewise
  std::int64_t logit_rows;
  float* row_losses;     // (rows)
  float* norm_partials;  // (slots, 2 width), zero between uses
  float* attention_scratch;

 private:
  struct Free {
    void operator()(void* memory) const;
  };

  std::size_t measure(const BufferShape& wanted);
  void lay_out(Arena& arena);
  void lay_out_block(Arena& arena, BlockBuffers& block);
  void lay_out_temporaries(Arena& arena);

  const ModelOptions& options_;
  const Network& network_;
  Products products_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace causeway::intra
