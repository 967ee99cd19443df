// One region's payload, read and checked against the model's layout: what is needed to decode any
// of its segments.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compression/codec.h"
#include "compression/payload.h"
#include "diloco/layout.h"

namespace causeway::intra {

class Decoder {
 public:
  // Untrusted bytes, viewed while this lives. Throws std::system_error with what is wrong.
  Decoder(std::span<const std::byte> payload, const diloco::Layout& layout);

  // sum += weight * Q, for segment `index`. Throws for a damaged segment; `sum` may then hold part
  // of it.
  void add(std::size_t index, float weight, std::span<float> sum) const;
  // residual += Q.
  void return_to(std::size_t index, std::span<float> residual) const;

 private:
  compression::Payload payload_;
  std::vector<std::unique_ptr<compression::Codec>> codecs_;
};

}  // namespace causeway::intra
