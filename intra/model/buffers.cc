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

// Cuts aligned pieces from a block of memory, or with a null block only measures.
class Buffers::Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  float* floats(std::int64_t count) {
    return static_cast<float*>(bytes(static_cast<std::size_t>(count) * sizeof(float)));
  }
  void* bytes(std::size_t count) {
    const auto at = used_;
    used_ += (count + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : base_ + at;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

void Buffers::Free::operator()(void* memory) const {
  ::operator delete(memory, std::align_val_t(kAlignment));
}

Buffers::Buffers(const ModelOptions& options, const Network& network, Products products)
    : blocks(network.blocks.size()), options_(options), network_(network), products_(products) {}

void Buffers::prepare(const BufferShape& wanted) {
  if (wanted == shape) return;
  shape = wanted;
  attention = {.batch = wanted.batch,
               .length = wanted.length,
               .heads = options_.heads,
               .kv_heads = options_.kv_heads,
               .head_size = options_.width / options_.heads,
               .qkv_stride = network_.qkv_stride};
  Carver measure(nullptr);
  lay_out(measure);
  if (measure.used() > capacity_) {
    memory_.reset();  // before the allocation, so that old and new need not fit together
    memory_.reset(
        static_cast<std::byte*>(::operator new(measure.used(), std::align_val_t(kAlignment))));
    capacity_ = measure.used();
  }
  // Padding of the attention scratch must be finite, and the norm partials start at zero.
  std::memset(memory_.get(), 0, measure.used());
  Carver carver(memory_.get());
  lay_out(carver);
}

void Buffers::lay_out(Carver& carver) {
  const auto width = shape.rows() * options_.width;
  for (auto& block : blocks) lay_out_block(carver, block);
  output = carver.floats(width);
  output_statistics = carver.floats(2 * shape.rows());
  head_in = carver.bytes(static_cast<std::size_t>(width) * operand_bytes(products_));
  lay_out_temporaries(carver);
}

void Buffers::lay_out_block(Carver& carver, BlockBuffers& block) {
  const auto rows = shape.rows(), width = rows * options_.width;
  const auto operand = [&](std::int64_t count) {
    return carver.bytes(static_cast<std::size_t>(count) * operand_bytes(products_));
  };
  block.input = carver.floats(width);
  block.attention_statistics = carver.floats(2 * rows);
  block.attention_in = operand(width);
  block.qkv = carver.floats(rows * network_.qkv_stride);
  block.attention_out = operand(width);
  block.log_sum_exp = carver.floats(rows * options_.heads);
  block.middle = carver.floats(width);
  block.mlp_statistics = carver.floats(2 * rows);
  block.mlp_in = operand(width);
  block.hidden_in = carver.floats(rows * network_.mlp_in_stride);
  block.hidden = operand(rows * network_.hidden_stride);
}

void Buffers::lay_out_temporaries(Carver& carver) {
  const auto rows = shape.rows(), width = rows * options_.width;
  const bool narrow = operand_bytes(products_) < sizeof(float);
  branch = carver.floats(width);
  wide = carver.floats(rows * std::max(network_.hidden_stride, options_.width));
  gradient = carver.floats(width);
  branch_operand = carver.bytes(static_cast<std::size_t>(width) * operand_bytes(products_));
  const auto wide_count = rows * std::max(network_.qkv_stride, network_.mlp_in_stride);
  wide_gradient = carver.floats(wide_count);
  wide_operand = narrow ? carver.bytes(static_cast<std::size_t>(wide_count) * 2) : wide_gradient;
  logit_rows = std::min(rows, std::max<std::int64_t>(64, kLogitFloats / options_.vocabulary));
  logits = carver.floats(logit_rows * options_.vocabulary);
  logits_operand =
      narrow ? carver.bytes(static_cast<std::size_t>(logit_rows * options_.vocabulary) * 2)
             : logits;
  row_losses = carver.floats(rows);
  norm_partials = carver.floats(2 * options_.width * shape.slots);
  attention_scratch = carver.floats(attention_scratch_floats(attention) * shape.slots);
}

}  // namespace causeway::intra
