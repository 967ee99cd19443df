// Payloads that would move the model much farther than those of most regions do. A sender's word
// for a norm is not asked: what counts is what was sent (docs/rounds.md, "Weights").
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::compression {

struct SentNorm {
  std::size_t place = 0;  // for the caller
  std::string_view sender;
  float weight = 0;
  double norm_squared = 0;  // Codec::norm_squared_bound() over its segments
};

struct Outlier {
  std::size_t place = 0;
  double times = 0;  // weight x norm over the median
};

// What it would do, for a message that begins with its name.
std::string in_words(const Outlier& outlier);

// Of whole payloads honest ones stay far below: a weight is at most 1, and at most 3 times the
// median over the norm (diloco/pacing/weights.h). Of parts of a model, as shards, fragments and
// averaged statistics are, they need not: a part may have the rows of words, or the expert, that
// only one region's data has, and data of another scale has a variance of another.
inline constexpr double kPayloadLimit = 16;
inline constexpr double kPartLimit = 4096;

// Those whose weight times norm is more than so many times the median of the senders' largest norms
// (of an even number the upper middle one), in their order. None of fewer than three senders, as
// nobody could say which one lies, and none if the median is 0.
std::vector<Outlier> outliers(std::span<const SentNorm> sent, double limit);

}  // namespace causeway::compression
