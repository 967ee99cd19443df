#include "apps/run/replay/first_difference.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <vector>

#include "intra/base/safetensors.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

std::string place_text(const diloco::Layout& layout, std::size_t element) {
  const diloco::PlacedTensor& tensor = layout.tensor_at(element);
  const std::size_t within = element - tensor.offset;
  if (within >= tensor.spec.count()) return "the padding after " + tensor.spec.name;
  return tensor.spec.name + ", element " + std::to_string(within);
}

}  // namespace

std::optional<std::string> first_difference(const diloco::Layout& layout,
                                            const intra::OuterState& state,
                                            const std::filesystem::path& file) {
  const intra::SafetensorsReader reader(file);
  std::vector<float> other(layout.size());
  for (const auto& [name, own] :
       {std::pair("anchor", &state.anchor), std::pair("momentum", &state.momentum)}) {
    reader.read(name, other);
    const auto [here, there] = std::ranges::mismatch(*own, other, same_bits);
    if (here == own->end()) continue;
    return std::string(name) + ", " +
           place_text(layout, static_cast<std::size_t>(here - own->begin())) + ": " +
           intra::to_metadata(*there) + " there, " + intra::to_metadata(*here) + " computed";
  }
  return std::nullopt;
}

}  // namespace causeway::run
