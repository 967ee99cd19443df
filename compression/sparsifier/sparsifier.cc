// topk: the k largest magnitudes of each chunk.
#include <algorithm>
#include <array>

#include "compression/base/chunk.h"
#include "compression/sparsifier/select.h"
#include "compression/sparsifier/sparsifier.h"

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
      select_largest(values, positions);
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

// threshold: every element whose magnitude is at least t times the segment's root mean square.
// Zeros never.

namespace {

class Threshold final : public Sparsifier {
 public:
  Threshold(double t, const std::string& t_text) : t_(t), spec_("threshold:t=" + t_text) {}

  std::string spec() const override { return spec_; }
  std::size_t count_max() const override { return kChunk; }
  bool count_varies() const override { return true; }

  void select(std::span<const float> segment, const Visit& visit) const override {
    // x^2 n >= t^2 sum of squares, in fp64: no rounding that would depend on the scale.
    double sum = 0;
    for (std::size_t begin = 0; begin < segment.size(); begin += kChunk) {
      sum += sum_of_squares(segment.subspan(begin).first<kChunk>());
    }
    const auto size = static_cast<double>(segment.size());
    const double least = t_ * t_ * sum;
    std::array<std::uint16_t, kChunk> positions;
    for (std::size_t chunk = 0; chunk < segment.size() / kChunk; ++chunk) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < kChunk; ++i) {
        const double x = segment[chunk * kChunk + i];
        positions[count] = static_cast<std::uint16_t>(i);
        count += x != 0 && x * x * size >= least ? 1 : 0;
      }
      visit(chunk, std::span(positions).first(count));
    }
  }

 private:
  double t_;
  std::string spec_;
};

}  // namespace

std::unique_ptr<Sparsifier> make_threshold(Spec& spec) {
  const auto [t, text] = spec.take_real(
      "t", 3, [](double x) { return x > 0 && x <= 1024; },
      "a number above 0, up to 1024: magnitudes from t times the segment's root mean square up "
      "are kept");
  return std::make_unique<Threshold>(t, text);
}

}  // namespace causeway::compression
