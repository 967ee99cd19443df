#include "intra/published/generation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <random>

namespace causeway::intra {

std::int32_t sample_token(std::span<const float> logits, float temperature, std::size_t top_k,
                          double chance) {
  assert(!logits.empty());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const bool greedy = temperature <= 0 || top_k == 1;
  const std::size_t kept = greedy ? 1 : top_k == 0 ? order.size() : std::min(top_k, order.size());
  // Ties go to the lower token, so that the draw does not depend on the sort.
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    likelier);
  if (greedy) return order[0];
  std::vector<double> mass(kept);
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    total += std::exp((logits[order[i]] - logits[order[0]]) / static_cast<double>(temperature));
    mass[i] = total;
  }
  const auto drawn = std::upper_bound(mass.begin(), mass.end() - 1, chance * total) - mass.begin();
  return order[static_cast<std::size_t>(drawn)];
}

std::vector<std::int32_t> generate(Model& model, std::span<const float> params,
                                   std::span<const std::int32_t> prompt,
                                   const GenerationOptions& options) {
  assert(!prompt.empty());
  const auto context = static_cast<std::size_t>(model.options().context);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  std::mt19937_64 engine(options.seed);
  model.params_changed();
  for (std::size_t i = 0; i < options.tokens; ++i) {
    const auto window = std::span(tokens).last(std::min(context, tokens.size()));
    const auto logits = model.next_token_logits(window, params);
    // 53 bits, as a double holds; the standard's own distributions differ between libraries.
    const double chance = static_cast<double>(engine() >> 11) * 0x1p-53;
    tokens.push_back(sample_token(logits, options.temperature, options.top_k, chance));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace causeway::intra
