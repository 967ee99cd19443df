// topk-global: the largest magnitudes of the whole segment, a fraction of its elements. Of equal
// magnitudes the lower index wins. Zeros never.
#include <algorithm>
#include <array>
#include <vector>

#include "compression/base/chunk.h"
#include "compression/sparsifier/sparsifier.h"

namespace causeway::compression {
namespace {

// What is kept: magnitudes above `bits`, and the first `ties` of those equal to it.
struct GlobalCut {
  std::uint32_t bits = 0;
  std::size_t ties = 0;
};

// Counts of the digits of all magnitudes whose higher bits are `above`.
std::vector<std::size_t> histogram(std::span<const float> segment, unsigned shift,
                                   unsigned digit_bits, std::uint32_t above) {
  std::vector<std::size_t> counts(std::size_t{1} << digit_bits);
  for (const float x : segment) {
    const std::uint32_t bits = magnitude_bits(x) >> shift;
    if (bits >> digit_bits == above) ++counts[bits & (counts.size() - 1)];
  }
  return counts;
}

// The largest digit with at least `wanted` elements at or above it; `wanted` becomes how many of
// that digit are needed. 0 if there are fewer.
std::uint32_t cut_digit(std::span<const std::size_t> counts, std::size_t& wanted) {
  std::size_t digit = counts.size() - 1;
  for (; digit > 0 && counts[digit] < wanted; --digit) wanted -= counts[digit];
  return static_cast<std::uint32_t>(digit);
}

// Of the `wanted` largest of the segment: a radix selection, upper 16 of the 31 bits first.
GlobalCut cut_of(std::span<const float> segment, std::size_t wanted) {
  constexpr unsigned kLowerBits = 15;
  const std::uint32_t upper = cut_digit(histogram(segment, kLowerBits, 16, 0), wanted);
  const std::uint32_t lower = cut_digit(histogram(segment, 0, kLowerBits, upper), wanted);
  const std::uint32_t bits = upper << kLowerBits | lower;
  return {bits, bits == 0 ? 0 : wanted};
}

class GlobalTopK final : public Sparsifier {
 public:
  GlobalTopK(double density, const std::string& text)
      : density_(density), spec_("topk-global:density=" + text) {}

  std::string spec() const override { return spec_; }
  std::size_t count_max() const override { return kChunk; }
  bool count_varies() const override { return true; }

  void select(std::span<const float> segment, const Visit& visit) const override {
    const auto size = static_cast<double>(segment.size());
    GlobalCut cut = cut_of(segment, static_cast<std::size_t>(std::max(1.0, density_ * size)));
    std::array<std::uint16_t, kChunk> positions;
    for (std::size_t chunk = 0; chunk < segment.size() / kChunk; ++chunk) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < kChunk; ++i) {
        const std::uint32_t bits = magnitude_bits(segment[chunk * kChunk + i]);
        const bool tie = bits == cut.bits && cut.ties > 0;
        cut.ties -= tie ? 1 : 0;
        positions[count] = static_cast<std::uint16_t>(i);
        count += bits > cut.bits || tie ? 1 : 0;
      }
      visit(chunk, std::span(positions).first(count));
    }
  }

 private:
  double density_;
  std::string spec_;
};

}  // namespace

std::unique_ptr<Sparsifier> make_global_topk(Spec& spec) {
  const auto [density, text] = spec.take_real(
      "density", 0.015625, [](double x) { return x > 0 && x <= 1; },
      "a number above 0, up to 1: the part of a segment's elements that is kept");
  return std::make_unique<GlobalTopK>(density, text);
}

}  // namespace causeway::compression
