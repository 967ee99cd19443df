// Attention as cuDNN's graphs of one fused operation. To describe one takes no GPU, so what cuDNN
// has a kernel for is tested without one.
#pragma once

#include <cudnn_frontend.h>

#include <cstdint>
#include <unordered_map>

#include "intra/cuda/jobs/job_attention.h"

namespace causeway::intra::cuda {

// cuDNN's deterministic backward needs this much room beside its arguments (cuDNN 9.28.1, asked
// about an H200): two bytes for every pair of positions, in every head of every sequence.
constexpr std::int64_t backward_workspace_bytes(const AttentionShape& shape) {
  return 2 * shape.batch * shape.heads * shape.length * shape.length;
}
inline constexpr std::int64_t kWorkspaceBytesMax = std::int64_t{1} << 29;

// How many sequences are given to one call, so that its workspace stays within kWorkspaceBytesMax
// where that can be: the most that divide the batch, one at least. Sequences do not touch one
// another, so the bits do not depend on it.
std::int64_t sequences_at_once(const AttentionArrays<Bfloat16>& arrays);
// So many of them, from `first` on.
AttentionArrays<Bfloat16> sequences_of(const AttentionArrays<Bfloat16>& arrays, std::int64_t first,
                                       std::int64_t count);

// Forward, or backward if there are gradients of the output: bf16 in and out, causal, the same bits
// each time. Not built yet.
cudnn_frontend::graph::Graph attention_graph(const AttentionArrays<Bfloat16>& arrays);

// What to execute the graph with.
std::unordered_map<std::int64_t, void*> pointers_of(const AttentionArrays<Bfloat16>& arrays);

}  // namespace causeway::intra::cuda
