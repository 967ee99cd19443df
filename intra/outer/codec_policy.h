// Which codec each segment of the flat layout is encoded with.
//
// - Statistics are sent as they are, as dense:fp32.
// - A matrix takes codec.matrix, or the spec of the first pattern of codec.tensors that its name
//   matches; vectors, which lie packed together, take codec.vector.
// - A bound on the relative squared error (||p - Q(p)||^2 / ||p||^2) makes a
//   segment that exceeds it step up: it is encoded again with the specs of codec.step_up, in order,
//   until one holds the bound. Compression never degrades silently.
//
// The choice is the sender's alone: a payload says for every segment how it was encoded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compression/base/codec.h"
#include "diloco/maths/layout.h"

namespace causeway::intra {

// "blocks.0.*" -> a codec spec. Patterns as a shell's, over whole tensor names.
struct TensorCodec {
  std::string pattern, spec;
  bool operator==(const TensorCodec&) const = default;
};

struct CodecOptions {
  std::string matrix = "dense:int8,block=128";
  std::string vector = "dense:int8,block=128";
  std::vector<TensorCodec> tensors;
  double error_max = 0;              // relative squared error; 0: no bound
  std::vector<std::string> step_up;  // tried in order by a segment beyond error_max
  bool feedback = true;
  bool force = false;            // sparse without feedback, against all advice
  float feedback_decay = 0.95F;  // beta
};

class CodecPolicy {
 public:
  // Throws Errc::bad_model with the key to change: a pattern that no matrix matches, or a codec
  // that drops coordinates without error feedback, unless forced. A spec that cannot be understood
  // throws compression::Errc::bad_spec. `layout` outlives this.
  CodecPolicy(const CodecOptions& options, const diloco::Layout& layout);

  // The codec table that Encoded::codec counts in.
  const std::vector<std::string>& specs() const { return specs_; }

  // The only codec that segment `index` may be encoded with; nothing if it may step up.
  std::optional<std::uint8_t> sole_codec(std::size_t index) const {
    return step_up_.empty() ? std::optional(own_[index]) : std::nullopt;
  }
  // The payloads of `layout`, one of each fragment, have no more bytes together, unless segments
  // step up.
  std::uint64_t payload_bytes_max(const diloco::Layout& layout, std::uint32_t fragments) const;
  // Encodings of these segments have no more bytes together, unless segments step up.
  std::uint64_t encoded_bytes_max(const diloco::Layout& layout,
                                  std::span<const std::size_t> segments) const;
  // What encode() has besides its result, at most.
  std::uint64_t working_bytes(const diloco::Layout& layout) const;
  // What is left of the residual when something is added to it.
  float decay() const { return decay_; }

  // How a segment was encoded.
  struct Encoded {
    double delta_squared = 0;  // global_norm(delta)^2: set by whoever took the delta
    compression::EncodeStats stats = {};
    std::uint64_t bytes = 0;
    std::uint8_t codec = 0;   // the one used
    bool stepped_up = false;  // not the segment's own
  };
  // compression::encode_with_feedback of segment `index` with its codec, or a higher one. `delta`
  // and `residual` are the segment's elements, the latter empty where there is no feedback; the
  // encoding is appended to `out`.
  Encoded encode(std::size_t index, std::span<const float> delta, std::span<float> residual,
                 std::vector<std::byte>& out, const compression::EncodeKey& key) const;

 private:
  std::uint8_t add(const std::string& spec, const std::string& key, const CodecOptions& options);
  void assign_own(const CodecOptions& options, const diloco::Layout& layout);

  float decay_;
  double error_max_;  // 0: no bound
  std::vector<std::string> specs_;
  std::vector<std::unique_ptr<compression::Codec>> codecs_;
  std::vector<std::uint8_t> own_;      // per segment
  std::vector<std::uint8_t> step_up_;  // empty without a bound
};

}  // namespace causeway::intra
