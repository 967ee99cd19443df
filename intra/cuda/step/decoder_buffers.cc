#include "intra/cuda/step/decoder_buffers.h"

#include <algorithm>

namespace causeway::intra::cuda {
namespace {

// Logits held at a time: enough for products of full size, and not the gigabytes of a whole batch.
constexpr std::int64_t kLogits = std::int64_t{1} << 30;
constexpr std::int64_t kTileRows = 128;  // of a product

// The fewest parts of about `most` rows, all alike, in whole tiles.
std::int64_t rows_of_part(std::int64_t rows, std::int64_t most) {
  const std::int64_t parts = (rows + most - 1) / most, each = (rows + parts - 1) / parts;
  return std::min(rows, (each + kTileRows - 1) / kTileRows * kTileRows);
}

template <typename T>
DecoderBlock<T> take_block(const ModelOptions& model, const Network& network, std::int64_t rows,
                           Arena& arena) {
  DecoderBlock<T> block{};
  block.input = arena.take<T>(rows * model.width);
  block.attention_statistics = arena.take<Statistics>(rows);
  block.qkv = arena.take<T>(rows * network.qkv_stride);
  block.attention_out = arena.take<T>(rows * model.width);
  block.log_sum_exp = arena.take<float>(rows * model.heads);
  block.middle = arena.take<T>(rows * model.width);
  block.mlp_statistics = arena.take<Statistics>(rows);
  block.hidden_in = arena.take<T>(rows * network.mlp_in_stride);
  return block;
}

}  // namespace

template <typename T>
void DecoderBuffers<T>::lay_out(const DecoderOptions& options, const Network& network,
                                const Rows& shape, Arena& arena) {
  const ModelOptions& model = options.model;
  const std::int64_t rows = shape.count(), width = rows * model.width;
  for (auto* column : {&tokens, &targets, &order, &sorted})
    *column = arena.take<std::int32_t>(rows);

  // What is computed again is shared by all blocks.
  T* const norms = options.recompute >= 2 ? arena.take<T>(width) : nullptr;
  T* const hidden = options.recompute >= 1 ? arena.take<T>(rows * network.hidden_stride) : nullptr;
  blocks.clear();
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer) {
    DecoderBlock<T> block = take_block<T>(model, network, rows, arena);
    const bool keep_norms = options.recompute < 2, keep_hidden = options.recompute < 1;
    block.attention_in = keep_norms ? arena.take<T>(width) : norms;
    block.mlp_in = keep_norms ? arena.take<T>(width) : norms;
    block.hidden = keep_hidden ? arena.take<T>(rows * network.hidden_stride) : hidden;
    blocks.push_back(block);
  }
  output = arena.take<T>(width);
  output_statistics = arena.take<Statistics>(rows);
  head_in = arena.take<T>(width);

  gradient = arena.take<T>(width);
  branch = arena.take<T>(width);
  wide = arena.take<T>(rows * std::max(network.hidden_stride, model.width));
  wide_gradient = arena.take<T>(rows * std::max(network.qkv_stride, network.mlp_in_stride));
  dots = arena.take<float>(rows * model.heads);
  logit_rows = rows_of_part(rows, std::max(kTileRows, kLogits / logit_stride(model)));
  logits = arena.take<T>(logit_rows * logit_stride(model));
  losses = arena.take<float>(rows);
  for (auto& parts : token_parts)
    parts = arena.take<Pack<float>>(token_blocks(rows) * (model.width / kPack));
  const std::int64_t widest = std::max({model.width, network.qkv_stride, network.mlp_in_stride});
  for (auto& partial : partials) {
    partial = arena.take<Pack<float>>(
        std::min(rows * widest / kPack, std::max(kColumnThreads, widest / kPack)));
  }
}

template struct DecoderBuffers<float>;
template struct DecoderBuffers<Bfloat16>;

}  // namespace causeway::intra::cuda
