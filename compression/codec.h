// Codecs: one segment of a pseudo-gradient to bytes and back.
//
// Where they stand in a round (design.md section 3): the worker forms p = beta * residual + delta
// (step 5-6), encodes it segment by segment (this file), keeps residual = p - Q(p) (feedback.h) and
// ships the segments as one payload (payload.h). Every region decodes every payload, its own
// included (step 11).
//
// Everything here is canonical: the same floats give the same bytes on every machine. A codec holds
// no mutable state; one object may be used by several threads at once. Chunks are encoded one by
// one: the encoding of several chunks is the concatenation of theirs, so any thread or kernel may
// do any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace causeway::compression {

// Elements per chunk; every segment is a whole number of chunks.
inline constexpr std::size_t kChunk = 4096;

enum class Errc {
  bad_spec = 1,  // a codec spec string that cannot be understood; the message says what is allowed
  malformed,     // bytes that are not a valid encoding
  not_finite,    // NaN or infinity offered for encoding
};
std::error_code make_error_code(Errc code);

// What an encode did, for the contribution's norms and for the error budget.
struct EncodeStats {
  double input_norm_squared = 0;  // ||p||^2
  double error_norm_squared = 0;  // ||p - Q(p)||^2
};

class Codec {
 public:
  virtual ~Codec() = default;

  // The full spec with every default spelled out, e.g. "dense:int8,block=128".
  virtual std::string spec() const = 0;

  // Exact size in bytes of the encoding of `count` elements (a multiple of kChunk).
  virtual std::size_t encoded_bytes(std::size_t count) const = 0;

  // Appends the encoding of `input` (count a multiple of kChunk, all finite) to `out` and writes
  // Q(input) to `decoded` (same size; may not alias input). Throws Errc::not_finite.
  virtual EncodeStats encode(std::span<const float> input, std::span<float> decoded,
                             std::vector<std::byte>& out) const = 0;

  // accumulator += weight * Q. Untrusted bytes: throws Errc::malformed before writing anything out
  // of place; the accumulator may then hold a partial sum. Rounding: one fp32 multiply, one fp32
  // add per element.
  virtual void decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> accumulator) const = 0;

  // True if it drops coordinates and so must not run without error feedback.
  virtual bool is_sparse() const = 0;
};

// Specs: "dense:fp32", "dense:int8,block=128", "topk:k=64,chunk=4096,value=2bit,index=elias-fano".
// Omitted settings take their defaults. Throws Errc::bad_spec naming the part that is wrong.
std::unique_ptr<Codec> make_codec(std::string_view spec);

}  // namespace causeway::compression

template <>
struct std::is_error_code_enum<causeway::compression::Errc> : std::true_type {};
