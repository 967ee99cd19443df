// threshold: every element whose magnitude is at least t times the segment's root mean square.
// Zeros never.
#include <array>

#include "compression/base/chunk.h"
#include "compression/sparsifier/sparsifier.h"

namespace causeway::compression {
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
