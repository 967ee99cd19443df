// Codecs: one segment of a pseudo-gradient to bytes and back.
//
// Where they stand in a round: the worker forms p = beta * residual + delta, encodes it segment by
// segment (this file), keeps residual = p - Q(p) (feedback.h) and ships the segments as one payload
// (payload.h). Every region decodes every payload, its own included.
//
// A codec is composed of three parts: which elements are kept (sparsifier.h), how their positions
// are written (index.h), and how their values are (value.h).
//
// Everything here is canonical: the same floats (and, where chance has a part, the same key) give
// the same bytes on every machine. A codec holds no mutable state; one object may be used by
// several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

// What the draws of stochastic rounding and of random positions depend on. Other codecs ignore it.
struct EncodeKey {
  std::uint64_t seed = 0;  // the run's
  std::uint32_t round = 0;
  // Tells regions apart. Random positions, which regions share, ignore it.
  std::uint32_t region = 0;
  // Place of the first element in the flat vector: a multiple of kChunk.
  std::uint64_t first_element = 0;
};

// What an encode did, for the contribution's norms and for bounds on the error.
struct EncodeStats {
  double input_norm_squared = 0;  // ||p||^2
  double error_norm_squared = 0;  // ||p - Q(p)||^2: with feedback, of the residual

  EncodeStats& operator+=(const EncodeStats& other);
  // ||p - Q(p)||^2 / ||p||^2; 0 for p = 0.
  double relative_squared_error() const;
};

struct FeedbackChunk;  // chunk.h

class Codec {
 public:
  virtual ~Codec() = default;

  // The full spec with every default spelled out, e.g. "dense:int8,block=128".
  virtual std::string spec() const = 0;

  // True if it drops coordinates and so must not run without error feedback.
  virtual bool is_sparse() const = 0;

  // The size of each chunk's encoding if all have the same and each is encoded alone: an encoding
  // of several chunks is then the concatenation of theirs, and any thread or kernel may do any of
  // them. Empty if a segment can only be encoded as one.
  virtual std::optional<std::size_t> chunk_bytes() const = 0;

  // No encoding of `count` elements (a multiple of kChunk) has more bytes. With chunk_bytes():
  // none has fewer either.
  virtual std::size_t encoded_bytes_max(std::size_t count) const = 0;

  // Appends the encoding of `input` (count a multiple of kChunk, all finite) to `out` and writes
  // Q(input) to `decoded` (same size; may not alias input). Throws Errc::not_finite, with `out` as
  // it was.
  EncodeStats encode(std::span<const float> input, std::span<float> decoded,
                     std::vector<std::byte>& out, const EncodeKey& key = {}) const;

  // For feedback.h, with chunk_bytes(): encodes one chunk with feedback into chunk_bytes() bytes at
  // `out`, whatever they were. Nothing if p is not finite, which is then in the residual's place.
  virtual std::optional<EncodeStats> encode_feedback(const FeedbackChunk& chunk, std::byte* out,
                                                     const EncodeKey& key) const;

  // accumulator += weight * Q. Untrusted bytes: throws Errc::malformed before writing anything out
  // of place; the accumulator may then hold a partial sum. Rounding: one fp32 multiply, one fp32
  // add per element.
  virtual void decode_add(std::span<const std::byte> bytes, float weight,
                          std::span<float> accumulator) const = 0;

  // weights += weight at every element that the encoding holds: all of a dense one. Untrusted
  // bytes, as above.
  virtual void add_weight(std::span<const std::byte> bytes, float weight,
                          std::span<float> weights) const = 0;

  // Of an encoding of `count` elements: ||Q||^2, or where values have scales what the largest
  // level everywhere would give, which costs little to find. The same bits on every machine.
  // Untrusted bytes, as above.
  virtual double norm_squared_bound(std::span<const std::byte> bytes, std::size_t count) const = 0;

 private:
  // `input` is finite and not empty.
  virtual void append(std::span<const float> input, std::span<float> decoded,
                      std::vector<std::byte>& out, const EncodeKey& key) const = 0;
};

}  // namespace causeway::compression

template <>
struct std::is_error_code_enum<causeway::compression::Errc> : std::true_type {};

namespace causeway::compression {

// How this folder reports a failed operation.
[[noreturn]] inline void fail(Errc code, const std::string& what) {
  throw std::system_error(make_error_code(code), what);
}

}  // namespace causeway::compression
