#include "intra/decoder.h"

#include <string>
#include <system_error>

#include "compression/feedback.h"

namespace causeway::intra {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw std::system_error(compression::Errc::malformed, why);
}

// The payload's segments must be exactly those of the layout.
void check_shape(const compression::Payload& payload, const diloco::Layout& layout) {
  if (payload.segments.size() != layout.segments().size()) {
    refuse("has " + std::to_string(payload.segments.size()) + " segments where the model has " +
           std::to_string(layout.segments().size()));
  }
  for (std::size_t i = 0; i < payload.segments.size(); ++i) {
    const compression::EncodedSegment& segment = payload.segments[i];
    if (segment.index != i || segment.element_count != layout.segments()[i].count ||
        segment.codec >= payload.codec_specs.size()) {
      refuse("segment " + std::to_string(i) + " is not the model's");
    }
  }
}

}  // namespace

Decoder::Decoder(std::span<const std::byte> payload, const diloco::Layout& layout)
    : payload_(compression::read_payload(payload)) {
  check_shape(payload_, layout);
  for (const std::string& spec : payload_.codec_specs)
    codecs_.push_back(compression::make_codec(spec));
}

void Decoder::add(std::size_t index, float weight, std::span<float> sum) const {
  const compression::EncodedSegment& segment = payload_.segments[index];
  codecs_[segment.codec]->decode_add(segment.bytes, weight, sum);
}

void Decoder::return_to(std::size_t index, std::span<float> residual) const {
  const compression::EncodedSegment& segment = payload_.segments[index];
  compression::return_to_residual(*codecs_[segment.codec], segment.bytes, residual);
}

}  // namespace causeway::intra
