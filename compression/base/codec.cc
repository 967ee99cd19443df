#include "compression/base/codec.h"

#include <array>
#include <cassert>

#include "compression/base/chunk.h"

namespace causeway::compression {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "compression"; }
  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::bad_spec:
        return "codec spec not understood";
      case Errc::malformed:
        return "malformed encoding";
      case Errc::not_finite:
        return "NaN or infinite value";
    }
    return "unknown error";
  }
};

}  // namespace

std::error_code make_error_code(Errc code) {
  static const Category category;
  return {static_cast<int>(code), category};
}

namespace {

double squared_distance(ChunkView a, ChunkView b) {
  std::array<float, kChunk> difference;
  for (std::size_t i = 0; i < kChunk; ++i) difference[i] = a[i] - b[i];
  return sum_of_squares(difference);
}

}  // namespace

EncodeStats& EncodeStats::operator+=(const EncodeStats& other) {
  input_norm_squared += other.input_norm_squared;
  error_norm_squared += other.error_norm_squared;
  return *this;
}

double EncodeStats::relative_squared_error() const {
  return input_norm_squared == 0 ? 0 : error_norm_squared / input_norm_squared;
}

EncodeStats Codec::encode(std::span<const float> input, std::span<float> decoded,
                          std::vector<std::byte>& out, const EncodeKey& key) const {
  assert(input.size() == decoded.size() && input.size() % kChunk == 0);
  assert(key.first_element % kChunk == 0);
  for (std::size_t begin = 0; begin < input.size(); begin += kChunk) {
    if (all_finite(input.subspan(begin).first<kChunk>())) continue;
    fail(Errc::not_finite, "elements from " + std::to_string(begin) + " on");
  }
  EncodeStats stats;
  if (input.empty()) return stats;
  append(input, decoded, out, key);
  for (std::size_t begin = 0; begin < input.size(); begin += kChunk) {
    const ChunkView chunk = input.subspan(begin).first<kChunk>();
    stats.input_norm_squared += sum_of_squares(chunk);
    stats.error_norm_squared += squared_distance(chunk, decoded.subspan(begin).first<kChunk>());
  }
  return stats;
}

std::optional<EncodeStats> Codec::encode_feedback(const FeedbackChunk&, std::byte*,
                                                  const EncodeKey&) const {
  assert(!chunk_bytes());  // which says that the codec has its own
  return {};
}

}  // namespace causeway::compression
