#include "intra/model/buffers.h"

#include <algorithm>
#include <cmath>

#include "intra/model/kernels/parallel.h"

namespace causeway::intra {
namespace {

// Query rows whose weights exist at a time. A multiple of the six rows of small_gemm's tile; small,
// because a block computes all columns up to its last row and so wastes half a block's square of
// them.
constexpr std::int64_t kQueryBlock = 24;

std::int64_t padded(std::int64_t count) {
  const auto pad = vector_pad();
  return (count + pad - 1) / pad * pad;
}

// Hands out consecutive pieces of a thread's scratch.
class Pieces {
 public:
  explicit Pieces(float* base) : at_(base) {}
  float* take(std::int64_t count) {
    float* piece = at_;
    at_ += count;
    used_ += count;
    return piece;
  }
  std::int64_t used() const { return used_; }

 private:
  float* at_;
  std::int64_t used_ = 0;
};

// Scratch for one key/value head. Rows of a head are padded to `size` = padded(head_size), rows of
// scores to `length`.
struct Scratch {
  Scratch(const AttentionShape& shape, Pieces pieces)
      : size(padded(shape.head_size)),
        length(padded(shape.length)),
        key(pieces.take(shape.length * size)),
        value(pieces.take(shape.length * size)),
        key_columns(pieces.take(size * length)),
        value_columns(pieces.take(size * length)),
        d_key(pieces.take(shape.length * size)),
        d_value(pieces.take(shape.length * size)),
        query(pieces.take(kQueryBlock * size)),
        out(pieces.take(kQueryBlock * size)),
        d_query(pieces.take(kQueryBlock * size)),
        weights(pieces.take(kQueryBlock * length)),
        dropped(pieces.take(kQueryBlock * length)),
        d_weights(pieces.take(kQueryBlock * length)),
        total(pieces.used()) {}

  std::int64_t size, length;
  float *key, *value;                  // (length, size)
  float *key_columns, *value_columns;  // their transposes
  float *d_key, *d_value;
  float *query, *out,
      *d_query;  // (block, size); out is the gradient of the output in the backward pass
  float *weights, *dropped, *d_weights;  // (block, length)
  std::int64_t total;
};

// One (sequence, key/value head): everything the query heads that share it need.
class HeadGroup {
 public:
  HeadGroup(const AttentionOptions& options, std::int64_t index, Pieces pieces)
      : options_(options),
        shape_(options.shape),
        scratch_(options.shape, pieces),
        sequence_(index / shape_.kv_heads),
        kv_head_(index % shape_.kv_heads),
        row_(shape_.qkv_stride),
        scale_(1.0F / std::sqrt(static_cast<float>(shape_.head_size))) {}

  void forward(const float* qkv, float* out, float* log_sum_exp);
  void backward(const float* qkv, const float* log_sum_exp, const float* d_out, float* d_qkv);

 private:
  std::int64_t group_size() const { return shape_.heads / shape_.kv_heads; }
  std::int64_t query_column(std::int64_t head) const { return head * shape_.head_size; }
  std::int64_t key_column() const { return (shape_.heads + kv_head_) * shape_.head_size; }
  std::int64_t value_column() const {
    return (shape_.heads + shape_.kv_heads + kv_head_) * shape_.head_size;
  }
  std::int64_t first_row() const { return sequence_ * shape_.length; }

  Rotation rotation_from(std::int64_t position, float direction) const;
  void load_keys_and_values(const float* qkv);
  void load_queries(const float* qkv, std::int64_t head, std::int64_t begin, std::int64_t rows);
  void drop(std::int64_t head, std::int64_t begin, std::int64_t rows, float* weights) const;
  void scores(std::int64_t begin, std::int64_t rows) const;
  void forward_block(std::int64_t head, std::int64_t begin, std::int64_t rows, float* log_sum_exp);
  void weight_gradients(std::int64_t head, std::int64_t begin, std::int64_t rows,
                        const float* log_sum_exp);
  void backward_block(std::int64_t head, std::int64_t begin, std::int64_t rows,
                      const float* log_sum_exp);

  const AttentionOptions& options_;
  const AttentionShape& shape_;
  Scratch scratch_;
  std::int64_t sequence_, kv_head_, row_;
  float scale_;
};

Rotation HeadGroup::rotation_from(std::int64_t position, float direction) const {
  if (options_.rotation.cosine == nullptr) return {};
  const auto at = position * (shape_.head_size / 2);
  return {options_.rotation.cosine + at, options_.rotation.sine + at, direction};
}

void HeadGroup::load_keys_and_values(const float* qkv) {
  const auto& s = scratch_;
  const float* rows = qkv + first_row() * row_;
  copy_head(shape_.length, shape_.head_size, 1, rotation_from(0, 1), rows + key_column(), row_,
            s.key, s.size);
  copy_head(shape_.length, shape_.head_size, 1, {}, rows + value_column(), row_, s.value, s.size);
  transpose(shape_.length, s.size, s.key, s.size, s.key_columns, s.length);
}

// Scaled by 1 / sqrt(head_size), which then need not be applied to the scores.
void HeadGroup::load_queries(const float* qkv, std::int64_t head, std::int64_t begin,
                             std::int64_t rows) {
  copy_head(rows, shape_.head_size, scale_, rotation_from(begin, 1),
            qkv + (first_row() + begin) * row_ + query_column(head), row_, scratch_.query,
            scratch_.size);
}

// weights <- query key^T, for the columns that the block's last row sees.
void HeadGroup::scores(std::int64_t begin, std::int64_t rows) const {
  const auto& s = scratch_;
  small_gemm(rows, padded(begin + rows), shape_.head_size, {s.query, s.size, 1}, s.key_columns,
             s.length, s.weights, s.length, false);
}

void HeadGroup::drop(std::int64_t head, std::int64_t begin, std::int64_t rows,
                     float* weights) const {
  // Each row of a head has its own tiles, wherever the blocks and the batch are cut.
  const auto row_elements = (shape_.length + kDropoutTile - 1) / kDropoutTile * kDropoutTile;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = head * shape_.length + begin + r;
    apply_dropout(options_.dropout, options_.first_sample + static_cast<std::uint64_t>(sequence_),
                  row * row_elements, begin + r + 1, weights + r * scratch_.length);
  }
}

void HeadGroup::forward_block(std::int64_t head, std::int64_t begin, std::int64_t rows,
                              float* log_sum_exp) {
  const auto& s = scratch_;
  const auto columns = begin + rows;
  scores(begin, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    log_sum_exp[begin + r] = causal_softmax(begin + r + 1, columns, s.weights + r * s.length);
  }
  if (options_.dropout.probability > 0) drop(head, begin, rows, s.weights);
  small_gemm(rows, s.size, columns, {s.weights, s.length, 1}, s.value, s.size, s.out, s.size,
             false);
}

void HeadGroup::forward(const float* qkv, float* out, float* log_sum_exp) {
  load_keys_and_values(qkv);
  const auto width = shape_.heads * shape_.head_size;
  for (auto head = kv_head_ * group_size(); head < (kv_head_ + 1) * group_size(); ++head) {
    for (std::int64_t begin = 0; begin < shape_.length; begin += kQueryBlock) {
      const auto rows = std::min(kQueryBlock, shape_.length - begin);
      load_queries(qkv, head, begin, rows);
      forward_block(head, begin, rows,
                    log_sum_exp + (sequence_ * shape_.heads + head) * shape_.length);
      copy_head(rows, shape_.head_size, 1, {}, scratch_.out, scratch_.size,
                out + (first_row() + begin) * width + query_column(head), width);
    }
  }
}

// weights <- softmax again; dropped <- its masked copy; d_weights <- the gradient of the scores.
void HeadGroup::weight_gradients(std::int64_t head, std::int64_t begin, std::int64_t rows,
                                 const float* log_sum_exp) {
  const auto& s = scratch_;
  const auto columns = begin + rows;
  const bool drops = options_.dropout.probability > 0;
  scores(begin, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = s.weights + r * s.length;
    causal_softmax_again(begin + r + 1, columns, log_sum_exp[begin + r], row);
    if (drops) std::copy_n(row, columns, s.dropped + r * s.length);
  }
  small_gemm(rows, padded(columns), shape_.head_size, {s.out, s.size, 1}, s.value_columns, s.length,
             s.d_weights, s.length, false);
  if (drops) {
    drop(head, begin, rows, s.dropped);
    drop(head, begin, rows, s.d_weights);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    softmax_backward(columns, s.weights + r * s.length, s.d_weights + r * s.length);
  }
}

void HeadGroup::backward_block(std::int64_t head, std::int64_t begin, std::int64_t rows,
                               const float* log_sum_exp) {
  const auto& s = scratch_;
  const auto columns = begin + rows;
  weight_gradients(head, begin, rows, log_sum_exp);
  const float* applied = options_.dropout.probability > 0 ? s.dropped : s.weights;
  small_gemm(columns, s.size, rows, {applied, 1, s.length}, s.out, s.size, s.d_value, s.size, true);
  small_gemm(columns, s.size, rows, {s.d_weights, 1, s.length}, s.query, s.size, s.d_key, s.size,
             true);
  small_gemm(rows, s.size, columns, {s.d_weights, s.length, 1}, s.key, s.size, s.d_query, s.size,
             false);
}

void HeadGroup::backward(const float* qkv, const float* log_sum_exp, const float* d_out,
                         float* d_qkv) {
  const auto& s = scratch_;
  load_keys_and_values(qkv);
  transpose(shape_.length, s.size, s.value, s.size, s.value_columns, s.length);
  std::fill_n(s.d_key, shape_.length * s.size, 0.0F);
  std::fill_n(s.d_value, shape_.length * s.size, 0.0F);
  const auto width = shape_.heads * shape_.head_size;
  for (auto head = kv_head_ * group_size(); head < (kv_head_ + 1) * group_size(); ++head) {
    for (std::int64_t begin = 0; begin < shape_.length; begin += kQueryBlock) {
      const auto rows = std::min(kQueryBlock, shape_.length - begin);
      load_queries(qkv, head, begin, rows);
      copy_head(rows, shape_.head_size, 1, {},
                d_out + (first_row() + begin) * width + query_column(head), width, s.out, s.size);
      backward_block(head, begin, rows,
                     log_sum_exp + (sequence_ * shape_.heads + head) * shape_.length);
      copy_head(rows, shape_.head_size, scale_, rotation_from(begin, -1), s.d_query, s.size,
                d_qkv + (first_row() + begin) * row_ + query_column(head), row_);
    }
  }
  float* rows = d_qkv + first_row() * row_;
  copy_head(shape_.length, shape_.head_size, 1, rotation_from(0, -1), s.d_key, s.size,
            rows + key_column(), row_);
  copy_head(shape_.length, shape_.head_size, 1, {}, s.d_value, s.size, rows + value_column(), row_);
}

template <class Work>
void for_head_groups(const AttentionOptions& options, float* scratch, const Work& work) {
  const auto& shape = options.shape;
  const auto stride = attention_scratch_floats(shape);
  parallel_for(shape.batch * shape.kv_heads, 1, 1,
               [&](std::int64_t begin, std::int64_t end, int slot) {
                 for (auto index = begin; index < end; ++index) {
                   HeadGroup group(options, index, Pieces(scratch + slot * stride));
                   work(group);
                 }
               });
}

}  // namespace

std::int64_t attention_scratch_floats(const AttentionShape& shape) {
  return Scratch(shape, Pieces(nullptr)).total;
}

void attention_forward(const AttentionOptions& options, const float* qkv, float* out,
                       float* log_sum_exp, float* scratch) {
  for_head_groups(options, scratch,
                  [&](HeadGroup& group) { group.forward(qkv, out, log_sum_exp); });
}

void attention_backward(const AttentionOptions& options, const float* qkv, const float* log_sum_exp,
                        const float* d_out, float* d_qkv, float* scratch) {
  for_head_groups(options, scratch,
                  [&](HeadGroup& group) { group.backward(qkv, log_sum_exp, d_out, d_qkv); });
}

}  // namespace causeway::intra
