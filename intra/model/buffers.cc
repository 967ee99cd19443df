#include "intra/model/buffers.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace causeway::intra {
namespace {

constexpr std::size_t kAlignment = 64;

// Logits held at a time. A block of rows reads the whole head matrix, so it must be large; logits
// of a large vocabulary times a large batch would be gigabytes.
constexpr std::int64_t kLogitFloats = std::int64_t{1} << 24;

}  // namespace

void Buffers::Free::operator()(void* memory) const {
  ::operator delete(memory, std::align_val_t(kAlignment));
}

Buffers::Buffers(const ModelOptions& options, const Network& network, Products products)
    : blocks(network.blocks.size()), options_(options), network_(network), products_(products) {}

std::size_t Buffers::bytes(const ModelOptions& options, const Network& network, Products products,
                           const BufferShape& shape) {
  return Buffers(options, network, products).measure(shape);
}

std::size_t Buffers::measure(const BufferShape& wanted) {
  shape = wanted;
  attention = {.batch = wanted.batch,
               .length = wanted.length,
               .heads = options_.heads,
               .kv_heads = options_.kv_heads,
               .head_size = options_.width / options_.heads,
               .qkv_stride = network_.qkv_stride};
  Arena nowhere(nullptr, kAlignment);
  lay_out(nowhere);
  return nowhere.used();
}

void Buffers::prepare(const BufferShape& wanted) {
  if (wanted == shape) return;
  const std::size_t bytes = measure(wanted);
  if (bytes > capacity_) {
    memory_.reset();  // before the allocation, so that old and new need not fit together
    memory_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment))));
    capacity_ = bytes;
  }
  // Padding of the attention scratch must be finite, and the norm partials start at zero.
  std::memset(memory_.get(), 0, bytes);
  Arena arena(memory_.get(), kAlignment);
  lay_out(arena);
}

void Buffers::lay_out(Arena& arena) {
  const auto width = shape.rows() * options_.width;
  for (auto& block : blocks) lay_out_block(arena, block);
  output = arena.take<float>(width);
  output_statistics = arena.take<float>(2 * shape.rows());
  head_in = arena.bytes(static_cast<std::size_t>(width) * operand_bytes(products_));
  lay_out_temporaries(arena);
}

void Buffers::lay_out_block(Arena& arena, BlockBuffers& block) {
  const auto rows = shape.rows(), width = rows * options_.width;
  const auto operand = [&](std::int64_t count) {
    return arena.bytes(static_cast<std::size_t>(count) * operand_bytes(products_));
  };
  block.input = arena.take<float>(width);
  block.attention_statistics = arena.take<float>(2 * rows);
  block.attention_in = operand(width);
  block.qkv = arena.take<float>(rows * network_.qkv_stride);
  block.attention_out = operand(width);
  block.log_sum_exp = arena.take<float>(rows * options_.heads);
  block.middle = arena.take<float>(width);
  block.mlp_statistics = arena.take<float>(2 * rows);
  block.mlp_in = operand(width);
  block.hidden_in = arena.take<float>(rows * network_.mlp_in_stride);
  block.hidden = operand(rows * network_.hidden_stride);
}

void Buffers::lay_out_temporaries(Arena& arena) {
  const auto rows = shape.rows(), width = rows * options_.width;
  const bool narrow = operand_bytes(products_) < sizeof(float);
  branch = arena.take<float>(width);
  wide = arena.take<float>(rows * std::max(network_.hidden_stride, options_.width));
  gradient = arena.take<float>(width);
  branch_operand = arena.bytes(static_cast<std::size_t>(width) * operand_bytes(products_));
  const auto wide_count = rows * std::max(network_.qkv_stride, network_.mlp_in_stride);
  wide_gradient = arena.take<float>(wide_count);
  wide_operand = narrow ? arena.bytes(static_cast<std::size_t>(wide_count) * 2) : wide_gradient;
  logit_rows = std::min(rows, std::max<std::int64_t>(64, kLogitFloats / options_.vocabulary));
  logits = arena.take<float>(logit_rows * options_.vocabulary);
  logits_operand =
      narrow ? arena.bytes(static_cast<std::size_t>(logit_rows * options_.vocabulary) * 2) : logits;
  row_losses = arena.take<float>(rows);
  norm_partials = arena.take<float>(2 * options_.width * shape.slots);
  attention_scratch = arena.take<float>(attention_scratch_floats(attention) * shape.slots);
}

}  // namespace causeway::intra
