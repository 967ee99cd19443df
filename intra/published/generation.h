// Text from a model: the next token again and again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "intra/model/model.h"

namespace causeway::intra {

struct GenerationOptions {
  std::size_t tokens = 200;
  float temperature = 0.8F;  // 0: always the likeliest token
  std::size_t top_k = 40;    // of the likeliest tokens only; 0: of all
  std::uint64_t seed = 1;
};

// The tokens that follow `prompt`, which must not be empty; of a long prompt the last `context`
// tokens count. The same seed gives the same tokens.
std::vector<std::int32_t> generate(Model& model, std::span<const float> params,
                                   std::span<const std::int32_t> prompt,
                                   const GenerationOptions& options);

// One draw from a distribution over logits; `chance` is uniform in [0, 1).
std::int32_t sample_token(std::span<const float> logits, float temperature, std::size_t top_k,
                          double chance);

}  // namespace causeway::intra
