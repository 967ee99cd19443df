#include "compression/codec.h"

#include <array>
#include <cassert>

#include "compression/chunk.h"
#include "compression/compose.h"
#include "compression/fail.h"
#include "compression/formats.h"

namespace causeway::compression {
namespace {

double squared_distance(ChunkView a, ChunkView b) {
  std::array<float, kChunk> difference;
  for (std::size_t i = 0; i < kChunk; ++i) difference[i] = a[i] - b[i];
  return sum_of_squares(difference);
}

std::unique_ptr<Codec> make_dense_codec(Spec& spec) {
  if (spec.variant().empty()) {
    spec.refuse("dense needs a value format, as in dense:int8; allowed: " + value_names());
  }
  return make_dense(make_value(spec.variant(), spec));
}

void refuse_variant(const Spec& spec) {
  if (spec.variant().empty()) return;
  spec.refuse("\"" + spec.variant() + "\" is not a setting of " + spec.family());
}

using MakeSparsifier = std::unique_ptr<Sparsifier> (*)(Spec&);

template <MakeSparsifier make>
std::unique_ptr<Codec> make_sparse_codec(Spec& spec) {
  refuse_variant(spec);
  auto sparsifier = make(spec);
  auto value = make_value(spec.take_text("value", "2bit"), spec);
  auto index = make_index(spec, sparsifier->count_varies() ? "rice" : "elias-fano");
  return make_sparse(std::move(sparsifier), std::move(value), std::move(index));
}

std::unique_ptr<Codec> make_random_codec(Spec& spec) {
  refuse_variant(spec);
  const std::size_t k = spec.take_kept();
  const std::size_t seed = spec.take_number(
      "seed", 0, [](std::size_t) { return true; }, "a number below 2^64");
  return make_random_k(k, seed, make_value(spec.take_text("value", "2bit"), spec));
}

struct Family {
  const char* name;
  std::unique_ptr<Codec> (*make)(Spec&);
};

constexpr std::array kFamilies{
    Family{"dense", make_dense_codec},
    Family{"topk", make_sparse_codec<make_topk>},
    Family{"topk-global", make_sparse_codec<make_global_topk>},
    Family{"threshold", make_sparse_codec<make_threshold>},
    Family{"randk", make_random_codec},
};

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

std::unique_ptr<Codec> make_codec(std::string_view text) {
  Spec spec(text);
  std::string names;
  for (const Family& family : kFamilies) {
    if (spec.family() == family.name) {
      auto codec = family.make(spec);
      spec.finish();
      return codec;
    }
    names += std::string(names.empty() ? "" : ", ") + family.name;
  }
  spec.refuse("unknown family \"" + spec.family() + "\"; allowed: " + names);
}

}  // namespace causeway::compression
