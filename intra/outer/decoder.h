// One region's payload, read and checked against the segments that its round exchanges: what is
// needed to decode any of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compression/base/codec.h"
#include "compression/codecs/payload.h"
#include "diloco/maths/layout.h"

namespace causeway::intra {

class Decoder {
 public:
  // Untrusted bytes, viewed while this lives, that must hold exactly these segments, ascending.
  // Throws std::system_error with what is wrong.
  Decoder(std::span<const std::byte> payload, const diloco::Layout& layout,
          std::span<const std::size_t> segments);

  const std::vector<std::string>& specs() const { return payload_.codec_specs; }
  // The encoding of segment `index`, its codec one of specs().
  const compression::EncodedSegment& at(std::size_t index) const;

  // sum += weight * Q, for segment `index`. Throws for a damaged segment; `sum` may then hold part
  // of it.
  void add(std::size_t index, float weight, std::span<float> sum) const;
  // weights += weight at every element of segment `index` that the payload holds.
  void add_weight(std::size_t index, float weight, std::span<float> weights) const;
  // compression::Codec::norm_squared_bound() of segment `index`. Throws likewise.
  double norm_squared_bound(std::size_t index) const;
  // Whether it may hold only some of them.
  bool is_sparse(std::size_t index) const { return codecs_[at(index).codec]->is_sparse(); }

 private:
  compression::Payload payload_;
  std::vector<std::unique_ptr<compression::Codec>> codecs_;
};

}  // namespace causeway::intra
