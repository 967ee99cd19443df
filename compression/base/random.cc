#include "compression/base/random.h"

#include <algorithm>
#include <cassert>

namespace causeway::compression {

void draw_units(const EncodeKey& key, std::span<float> units) {
  constexpr std::size_t kWords = PhiloxBlock{}.size();
  assert(key.first_element % kWords == 0);
  for (std::size_t i = 0; i < units.size(); i += kWords) {
    const std::uint64_t block = (key.first_element + i) / kWords;
    const PhiloxBlock words = philox({low_word(block), high_word(block), key.round, key.region},
                                     {low_word(key.seed), high_word(key.seed)});
    const std::size_t count = std::min(kWords, units.size() - i);
    for (std::size_t j = 0; j < count; ++j) units[i + j] = unit_interval(words[j]);
  }
}

}  // namespace causeway::compression
