// Causal attention in plain jobs: a warp per query row forward, a warp per query row and then per
// key row backward. Weights exist for 32 keys (or queries) at a time. Every sum has one owner and
// one order: no atomics.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

inline constexpr unsigned kTile = 32;                        // lanes, and keys at a time
inline constexpr std::int64_t kHeadSizeMax = kTile * kPack;  // each lane keeps 8 of a head
inline constexpr std::int64_t kHeadSizeUnit = 2 * kPack;     // whole packs, also of half a head

// Rows of qkv are (all queries, all keys, all values), rotated if need be; log_sum_exp and dots are
// (batch, heads, length).
struct AttentionShape {
  std::int64_t batch = 0, length = 0, heads = 0, kv_heads = 0, head_size = 0;

  constexpr std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }
  constexpr std::int64_t width() const { return heads * head_size; }
};

template <typename T>
struct AttentionArrays {
  AttentionShape shape;
  float scale = 1;  // of the scores
  Dropout dropout;
  const T* qkv = nullptr;
  const T* d_out = nullptr;  // backward
  T* out = nullptr;          // read backward
  T* d_qkv = nullptr;        // backward
  float* log_sum_exp = nullptr;
  float* dots = nullptr;  // backward: sums of out * d_out

  // First elements of a token's query, key and value.
  constexpr std::int64_t query(std::int64_t token, std::int64_t head) const {
    return token * shape.qkv_width() + head * shape.head_size;
  }
  constexpr std::int64_t key(std::int64_t token, std::int64_t kv_head) const {
    return query(token, shape.heads + kv_head);
  }
  constexpr std::int64_t value(std::int64_t token, std::int64_t kv_head) const {
    return query(token, shape.heads + shape.kv_heads + kv_head);
  }
  constexpr std::int64_t output(std::int64_t token, std::int64_t head) const {
    return token * shape.width() + head * shape.head_size;
  }
  constexpr std::int64_t kv_head_of(std::int64_t head) const {
    return head / (shape.heads / shape.kv_heads);
  }

  constexpr float product(const T* a, const T* b) const {
    float sum = 0;
    const auto* packs_a = reinterpret_cast<const Pack<T>*>(a);
    const auto* packs_b = reinterpret_cast<const Pack<T>*>(b);
    for (std::int64_t p = 0; p < shape.head_size / kPack; ++p) {
      sum += dot(unpack(packs_a[p]), unpack(packs_b[p]));
    }
    return sum;
  }
  // What dropout multiplies the weight of query i for key j with, in a head of a sequence.
  constexpr float kept(std::int64_t sequence, std::int64_t head, std::int64_t i,
                       std::int64_t j) const {
    if (dropout.probability == 0) return 1;
    const auto row_elements = (shape.length + 63) / 64 * 64;
    return dropout.factor(sequence, (head * shape.length + i) * row_elements + j);
  }
  // own.v[e] += weight * vector[lane + 32 e].
  constexpr void add_scaled(unsigned lane, float weight, const T* vector, Floats& own) const {
    for (unsigned e = 0; lane + kTile * e < shape.head_size; ++e) {
      own.v[e] += weight * load(vector[lane + kTile * e]);
    }
  }
  constexpr void store_scaled(unsigned lane, float factor, const Floats& own, T* vector) const {
    for (unsigned e = 0; lane + kTile * e < shape.head_size; ++e) {
      store(factor * own.v[e], vector[lane + kTile * e]);
    }
  }
};

// Row r of (batch, heads, length): a query.
struct QueryPlace {
  constexpr QueryPlace(const AttentionShape& shape, std::int64_t r)
      : i(r % shape.length),
        head(r / shape.length % shape.heads),
        sequence(r / shape.length / shape.heads),
        first(sequence * shape.length) {}
  std::int64_t i, head, sequence;
  std::int64_t first;  // token of the sequence
};

template <typename T>
struct AttentionForward {
  static constexpr unsigned kLanes = kTile;
  struct Memory {
    float weights[kTile];
  };

  std::int64_t rows = 0;  // batch x heads x length
  AttentionArrays<T> at;

  template <typename Group>
  constexpr void row(Group& group, Memory& memory, std::int64_t r) const {
    const QueryPlace place(at.shape, r);
    const std::int64_t kv_head = at.kv_head_of(place.head);
    const T* query = at.qkv + at.query(place.first + place.i, place.head);
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    typename Group::template PerLane<float> score;
    typename Group::template PerLane<Floats> out;
    for (std::int64_t tile = 0; tile <= place.i; tile += kTile) {
      group.each([&](unsigned lane) {
        const std::int64_t j = tile + lane;
        score.of(lane) =
            j > place.i ? -std::numeric_limits<float>::infinity()
                        : at.scale * at.product(query, at.qkv + at.key(place.first + j, kv_head));
      });
      const float tile_top = group.max([&](unsigned lane) { return score.of(lane); });
      const float new_top = tile_top > top ? tile_top : top;
      const float shrink = std::exp(top - new_top);
      top = new_top;
      sum = sum * shrink + group.sum([&](unsigned lane) { return std::exp(score.of(lane) - top); });
      group.each([&](unsigned lane) {
        const float weight = std::exp(score.of(lane) - top);
        memory.weights[lane] =
            weight == 0 ? 0 : weight * at.kept(place.sequence, place.head, place.i, tile + lane);
      });
      const std::int64_t keys = place.i + 1 - tile < kTile ? place.i + 1 - tile : kTile;
      group.each([&](unsigned lane) {
        for (float& value : out.of(lane).v) value *= shrink;
        for (std::int64_t k = 0; k < keys; ++k) {
          at.add_scaled(lane, memory.weights[k], at.qkv + at.value(place.first + tile + k, kv_head),
                        out.of(lane));
        }
      });
    }
    group.each([&](unsigned lane) {
      if (lane == 0) at.log_sum_exp[r] = top + std::log(sum);
      at.store_scaled(lane, 1 / sum, out.of(lane),
                      at.out + at.output(place.first + place.i, place.head));
    });
  }
};

// The gradients of queries, and the dots.
template <typename T>
struct AttentionQueryGradient {
  static constexpr unsigned kLanes = kTile;
  struct Memory {
    float gradients[kTile];  // of the scores
  };

  std::int64_t rows = 0;  // batch x heads x length
  AttentionArrays<T> at;

  template <typename Group>
  constexpr void row(Group& group, Memory& memory, std::int64_t r) const {
    const QueryPlace place(at.shape, r);
    const std::int64_t kv_head = at.kv_head_of(place.head), token = place.first + place.i;
    const T* query = at.qkv + at.query(token, place.head);
    const T* d_out = at.d_out + at.output(token, place.head);
    const T* out = at.out + at.output(token, place.head);
    const float dots = group.sum([&](unsigned lane) {
      float own = 0;
      for (std::int64_t d = lane; d < at.shape.head_size; d += kTile)
        own += load(out[d]) * load(d_out[d]);
      return own;
    });
    typename Group::template PerLane<Floats> d_query;
    for (std::int64_t tile = 0; tile <= place.i; tile += kTile) {
      group.each([&](unsigned lane) {
        const std::int64_t j = tile + lane;
        memory.gradients[lane] = 0;
        if (j > place.i) return;
        const T* key = at.qkv + at.key(place.first + j, kv_head);
        const T* value = at.qkv + at.value(place.first + j, kv_head);
        const float weight = std::exp(at.scale * at.product(query, key) - at.log_sum_exp[r]);
        const float d_weight =
            at.kept(place.sequence, place.head, place.i, j) * at.product(d_out, value);
        memory.gradients[lane] = weight * (d_weight - dots);
      });
      const std::int64_t keys = place.i + 1 - tile < kTile ? place.i + 1 - tile : kTile;
      group.each([&](unsigned lane) {
        for (std::int64_t k = 0; k < keys; ++k) {
          at.add_scaled(lane, memory.gradients[k], at.qkv + at.key(place.first + tile + k, kv_head),
                        d_query.of(lane));
        }
      });
    }
    group.each([&](unsigned lane) {
      if (lane == 0) at.dots[r] = dots;
      at.store_scaled(lane, at.scale, d_query.of(lane), at.d_qkv + at.query(token, place.head));
    });
  }
};

// The gradients of keys and values, from the dots.
template <typename T>
struct AttentionKeyGradient {
  static constexpr unsigned kLanes = kTile;
  struct Memory {
    float weights[kTile], gradients[kTile];
  };

  std::int64_t rows = 0;  // batch x kv_heads x length
  AttentionArrays<T> at;

  template <typename Group>
  constexpr void row(Group& group, Memory& memory, std::int64_t r) const {
    const AttentionShape& shape = at.shape;
    const std::int64_t j = r % shape.length, kv_head = r / shape.length % shape.kv_heads;
    const std::int64_t sequence = r / shape.length / shape.kv_heads;
    const std::int64_t first = sequence * shape.length, group_size = shape.heads / shape.kv_heads;
    const T* key = at.qkv + at.key(first + j, kv_head);
    const T* value = at.qkv + at.value(first + j, kv_head);
    typename Group::template PerLane<Floats> d_key, d_value;
    for (std::int64_t head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
      for (std::int64_t tile = j / kTile * kTile; tile < shape.length; tile += kTile) {
        group.each([&](unsigned lane) {
          const std::int64_t i = tile + lane;
          memory.weights[lane] = 0;
          memory.gradients[lane] = 0;
          if (i < j || i >= shape.length) return;
          const std::int64_t row = (sequence * shape.heads + head) * shape.length + i;
          const T* query = at.qkv + at.query(first + i, head);
          const T* d_out = at.d_out + at.output(first + i, head);
          const float weight = std::exp(at.scale * at.product(query, key) - at.log_sum_exp[row]);
          const float kept = at.kept(sequence, head, i, j);
          memory.weights[lane] = weight * kept;
          memory.gradients[lane] = weight * (kept * at.product(d_out, value) - at.dots[row]);
        });
        const std::int64_t queries = shape.length - tile < kTile ? shape.length - tile : kTile;
        group.each([&](unsigned lane) {
          for (std::int64_t k = 0; k < queries; ++k) {
            at.add_scaled(lane, memory.gradients[k], at.qkv + at.query(first + tile + k, head),
                          d_key.of(lane));
            at.add_scaled(lane, memory.weights[k], at.d_out + at.output(first + tile + k, head),
                          d_value.of(lane));
          }
        });
      }
    }
    group.each([&](unsigned lane) {
      at.store_scaled(lane, at.scale, d_key.of(lane), at.d_qkv + at.key(first + j, kv_head));
      at.store_scaled(lane, 1, d_value.of(lane), at.d_qkv + at.value(first + j, kv_head));
    });
  }
};

}  // namespace causeway::intra::cuda
