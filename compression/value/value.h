// Value formats: n floats to bytes and back, in a size that depends on n alone. CONTRIBUTING.md
// lists what a new one takes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/base/spec.h"

namespace causeway::compression {

class ValueFormat {
 public:
  virtual ~ValueFormat() = default;

  // Name and settings as they stand in a codec's spec, e.g. "int8,block=128".
  virtual std::string spec() const = 0;

  // `count`: 1 to kChunk, here and below.
  virtual std::size_t bytes(std::size_t count) const = 0;

  // `values`: finite. `decoded`: as many, what they will decode to; may be `values` themselves.
  // `out`: bytes(values.size()) zeros. A zero decodes to zero. `key.first_element` counts this
  // call's values.
  virtual void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
                      const EncodeKey& key) const = 0;

  // The same, but leaves in `values` what is not encoded: each value minus its decoded value.
  virtual void encode_rest(std::span<float> values, std::byte* out, const EncodeKey& key) const;

  // One chunk with error feedback into bytes(kChunk) bytes, whatever they were. Nothing if p is not
  // finite.
  virtual std::optional<EncodeStats> encode_feedback(const FeedbackChunk& chunk, std::byte* out,
                                                     const EncodeKey& key) const;

  // Untrusted bytes(values.size()). False unless they are canonical and all values finite.
  virtual bool decode(const std::byte* bytes, std::span<float> values) const = 0;

  // accumulator += weight * value, for each. What was added is unspecified if false.
  virtual bool decode_add(const std::byte* bytes, float weight, std::span<float> accumulator) const;

  // As Codec's, of `count` values. Untrusted bytes(count): infinity or NaN for some that are
  // malformed.
  virtual double norm_squared_bound(const std::byte* bytes, std::size_t count) const;
};

// `name` and what it needs of the settings. Throws Errc::bad_spec.
std::unique_ptr<ValueFormat> make_value(const std::string& name, Spec& spec);

// Names of all value formats, for messages.
std::string value_names();

// The value formats behind the table of value.cc. Each takes its settings from the spec and throws
// Errc::bad_spec.

std::unique_ptr<ValueFormat> make_fp32(Spec& spec);
std::unique_ptr<ValueFormat> make_bf16(Spec& spec);
std::unique_ptr<ValueFormat> make_fp16(Spec& spec);
std::unique_ptr<ValueFormat> make_int8(Spec& spec);
std::unique_ptr<ValueFormat> make_int4(Spec& spec);
std::unique_ptr<ValueFormat> make_int4_asymmetric(Spec& spec);
std::unique_ptr<ValueFormat> make_two_bit(Spec& spec);
std::unique_ptr<ValueFormat> make_one_bit(Spec& spec);

}  // namespace causeway::compression
