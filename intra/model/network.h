// Where each weight of the network lies in the flat span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "intra/model/kernels/philox.h"
#include "intra/model/model.h"

namespace causeway::intra {

// What every dropout mask of a step is drawn with.
inline PhiloxKey dropout_key(const DropoutKey& key) {
  return philox_key(mix_bits(mix_bits(key.seed) + key.step));
}

// The angles of rotary positions (arXiv 2104.09864).
struct Rotations {
  std::vector<float> cosine, sine;  // (context, head size / 2); empty without rotary positions
};

Rotations make_rotations(const ModelOptions& options);

struct FlatRange {
  std::size_t offset = 0;
  std::size_t count = 0;
};

// y = x W^T + bias with W (out, in). Tensors that happen to be adjacent in the flat span and share
// their input (q, k and v; gate and up) are one linear layer with several weight tensors, because
// one large product is faster than three small ones.
struct Linear {
  std::vector<FlatRange> weights;  // ascending
  FlatRange bias;                  // count 0: none
  std::int64_t in = 0, out = 0;
  std::int64_t x_stride = 0, y_stride = 0;  // between the rows of the buffers it reads and writes
  std::int64_t column = 0;                  // of its first output within a row
};

struct Norm {
  FlatRange weight;
  FlatRange bias;  // count 0: RMSNorm
};

struct Block {
  Norm attention_norm;
  std::vector<Linear> qkv;  // side by side in rows
  Linear attention_out;
  Norm mlp_norm;
  std::vector<Linear> mlp_in;  // side by side in rows
  Linear mlp_out;
};

// How far apart rows lie: `spread` adds to widths that CPU caches dislike.
enum class RowStride { spread, packed };

struct Network {
  Network(const ModelOptions& options, const diloco::Layout& layout,
          RowStride rows = RowStride::spread);

  std::vector<FlatRange> weights() const;  // of all linear layers, ascending

  FlatRange token_embedding;
  FlatRange position_embedding;  // count 0: rotary
  std::vector<Block> blocks;
  Norm final_norm;
  Linear head;
  bool tied_head = false;  // head.weights is token_embedding
  // Between rows of queries, keys and values; of the activation's input and output.
  std::int64_t qkv_stride = 0, mlp_in_stride = 0, hidden_stride = 0;
};

}  // namespace causeway::intra
