// topk: the k largest magnitudes of each chunk.
#include <algorithm>
#include <array>

#include "compression/base/chunk.h"
#include "compression/sparsifier/sparsifier.h"
#include "compression/sparsifier/topk.h"

namespace causeway::compression {
namespace {

class TopK final : public Sparsifier {
 public:
  TopK(std::size_t k, bool skip_zeros) : k_(k), skip_zeros_(skip_zeros) {}
  std::string spec() const override {
    return "topk:k=" + std::to_string(k_) + ",chunk=" + std::to_string(kChunk) +
           (skip_zeros_ ? ",skip-zeros=yes" : "");
  }
  std::size_t count_max() const override { return k_; }
  bool count_varies() const override { return skip_zeros_; }

  void select(std::span<const float> segment, const Visit& visit) const override {
    std::array<std::uint16_t, kChunk> buffer;
    for (std::size_t chunk = 0; chunk < segment.size() / kChunk; ++chunk) {
      const ChunkView values = segment.subspan(chunk * kChunk).first<kChunk>();
      auto positions = std::span(buffer).first(k_);
      select_topk(values, positions);
      if (skip_zeros_) {
        const auto end = std::remove_if(positions.begin(), positions.end(), [&](std::uint16_t i) {
          return magnitude_bits(values[i]) == 0;
        });
        positions = positions.first(static_cast<std::size_t>(end - positions.begin()));
      }
      visit(chunk, positions);
    }
  }

 private:
  std::size_t k_;
  bool skip_zeros_;  // zeros among the k largest are left out
};

}  // namespace

std::unique_ptr<Sparsifier> make_topk(Spec& spec) {
  const std::size_t k = spec.take_kept();
  spec.take_number(
      "chunk", kChunk, [](std::size_t n) { return n == kChunk; }, "4096");
  const bool skip_zeros = spec.take_word("skip-zeros", "no", {"yes", "no"}) == "yes";
  return std::make_unique<TopK>(k, skip_zeros);
}

}  // namespace causeway::compression
