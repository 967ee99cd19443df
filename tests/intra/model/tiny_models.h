// Small models, batches and parameters that the model's tests share.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "intra/model/model.h"

namespace causeway::intra::tiny {

// Widths that are no multiple of a vector, sequences longer than one block of queries.
inline ModelOptions gpt2() {
  return {.family = ModelOptions::Family::gpt2,
          .vocabulary = 13,
          .context = 31,
          .layers = 2,
          .width = 12,
          .heads = 3,
          .kv_heads = 3,
          .hidden = 20};
}

// Two query heads to each key head, and q, k, v of sizes that lie apart in the flat layout.
inline ModelOptions llama() {
  return {.family = ModelOptions::Family::llama,
          .vocabulary = 11,
          .context = 30,
          .layers = 2,
          .width = 24,
          .heads = 4,
          .kv_heads = 2,
          .hidden = 28};
}

// q, k, v and gate, up are whole numbers of chunks, so that each group is one matrix product.
inline ModelOptions llama_with_joined_layers() {
  auto options = llama();
  options.layers = 1;
  options.width = 64;
  options.hidden = 64;
  options.heads = 4;
  options.kv_heads = 4;
  return options;
}

inline bool is_norm_weight(std::string_view name) {
  const bool of_norm = name.find("ln_") != name.npos || name.find("norm") != name.npos;
  return of_norm && name.ends_with(".weight");
}

// The formula of make_model_golden.py: 0.2 sin(0.37 i + 0.0113 i^2 + t) for element i of tensor t,
// plus one in the weights of norms.
inline std::vector<float> formula_params(const diloco::Layout& layout) {
  std::vector<float> params(layout.size());
  double t = 0;
  for (const auto& tensor : layout.tensors()) {
    const double base = is_norm_weight(tensor.spec.name) ? 1.0 : 0.0;
    for (std::size_t n = 0; n < tensor.spec.count(); ++n) {
      const auto i = static_cast<double>(n);
      params[tensor.offset + n] =
          static_cast<float>(base + 0.2 * std::sin(0.37 * i + 0.0113 * i * i + t));
    }
    ++t;
  }
  return params;
}

// Owns what a Batch looks at. Sequence s holds (i^2 + 3i + shift) mod vocabulary.
struct Sequences {
  Sequences(const ModelOptions& options, std::int64_t batch, std::int64_t length,
            std::int64_t shift = 0)
      : batch_size(batch), sequence_length(length) {
    for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
      for (std::int64_t position = 0; position < length; ++position) {
        const auto token = [&](std::int64_t p) {
          const auto i = sequence * (length + 1) + p;
          return static_cast<std::int32_t>((i * i + 3 * i + shift) % options.vocabulary);
        };
        tokens.push_back(token(position));
        targets.push_back(token(position + 1));
      }
    }
  }

  Batch all() const { return {tokens, targets, batch_size, sequence_length}; }
  Batch part(std::int64_t first, std::int64_t count) const {
    const auto at = static_cast<std::size_t>(first * sequence_length);
    const auto size = static_cast<std::size_t>(count * sequence_length);
    return {std::span(tokens).subspan(at, size), std::span(targets).subspan(at, size), count,
            sequence_length};
  }

  std::vector<std::int32_t> tokens, targets;
  std::int64_t batch_size, sequence_length;
};

inline double norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

// Largest difference, relative to the norm of `expected` over the square root of its size.
inline double relative_difference(std::span<const float> values, std::span<const float> expected) {
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - expected[i];
    squares += difference * difference;
  }
  return std::sqrt(squares) / norm(expected);
}

}  // namespace causeway::intra::tiny
