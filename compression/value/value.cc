#include "compression/value/value.h"

#include <algorithm>
#include <array>
#include <limits>

#include "compression/base/spec.h"

namespace causeway::compression {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<ValueFormat> (*make)(Spec&);
};

constexpr std::array kFormats{
    Entry{"fp32", make_fp32},    Entry{"bf16", make_bf16},
    Entry{"fp16", make_fp16},    Entry{"int8", make_int8},
    Entry{"int4", make_int4},    Entry{"int4-asymmetric", make_int4_asymmetric},
    Entry{"2bit", make_two_bit}, Entry{"1bit", make_one_bit},
};

// Formats that earlier versions had, and what does their work. docs/payload.md keeps the names.
struct Removed {
  const char* name;
  const char* instead;
};
constexpr std::array kRemoved{
    Removed{"nf4", "int4"},
    Removed{"e2m1", "int4"},
    Removed{"e3m0", "int4"},
    Removed{"ternary", "2bit or 1bit"},
};

}  // namespace

void ValueFormat::encode_rest(std::span<float> values, std::byte* out, const EncodeKey& key) const {
  std::array<float, kChunk> decoded;
  encode(values, std::span(decoded).first(values.size()), out, key);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= decoded[i];
}

std::optional<EncodeStats> ValueFormat::encode_feedback(const FeedbackChunk& chunk, std::byte* out,
                                                        const EncodeKey& key) const {
  return encode_by_parts(chunk, [&](ChunkSpan p) {
    std::fill_n(out, bytes(kChunk), std::byte{0});
    encode_rest(p, out, key);
  });
}

bool ValueFormat::decode_add(const std::byte* bytes, float weight,
                             std::span<float> accumulator) const {
  std::array<float, kChunk> buffer;
  const auto values = std::span(buffer).first(accumulator.size());
  if (!decode(bytes, values)) return false;
  for (std::size_t i = 0; i < values.size(); ++i) accumulator[i] += weight * values[i];
  return true;
}

double ValueFormat::norm_squared_bound(const std::byte* bytes, std::size_t count) const {
  std::array<float, kChunk> values{};
  if (!decode(bytes, std::span(values).first(count)))
    return std::numeric_limits<double>::infinity();
  return sum_of_squares(values);
}

std::unique_ptr<ValueFormat> make_value(const std::string& name, Spec& spec) {
  for (const Entry& entry : kFormats) {
    if (name == entry.name) return entry.make(spec);
  }
  for (const Removed& removed : kRemoved) {
    if (name == removed.name) {
      spec.refuse("value format \"" + name + "\" was removed; use " + removed.instead);
    }
  }
  spec.refuse("unknown value format \"" + name + "\"; allowed: " + value_names());
}

std::string value_names() {
  return names_in(kFormats);
}

}  // namespace causeway::compression
