#include "intra/outer/decoder.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "compression/codecs/make_codec.h"

namespace causeway::intra {
namespace {

[[noreturn]] void refuse_payload(const std::string& why) {
  throw std::system_error(compression::Errc::malformed, why);
}

void check_shape(const compression::Payload& payload, const diloco::Layout& layout,
                 std::span<const std::size_t> segments) {
  if (payload.segments.size() != segments.size()) {
    refuse_payload(fmt::format("has {} segments where the round has {}", payload.segments.size(),
                               segments.size()));
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const compression::EncodedSegment& segment = payload.segments[i];
    if (segment.index != segments[i] ||
        segment.element_count != layout.segments()[segments[i]].count ||
        segment.codec >= payload.codec_specs.size()) {
      refuse_payload(fmt::format("segment {} is not the round's", segment.index));
    }
  }
}

}  // namespace

Decoder::Decoder(std::span<const std::byte> payload, const diloco::Layout& layout,
                 std::span<const std::size_t> segments)
    : payload_(compression::read_payload(payload)) {
  check_shape(payload_, layout, segments);
  for (const std::string& spec : payload_.codec_specs)
    codecs_.push_back(compression::make_codec(spec));
}

const compression::EncodedSegment& Decoder::at(std::size_t index) const {
  const auto found =
      std::ranges::lower_bound(payload_.segments, index, {}, &compression::EncodedSegment::index);
  assert(found != payload_.segments.end() && found->index == index);
  return *found;
}

void Decoder::add(std::size_t index, float weight, std::span<float> sum) const {
  const compression::EncodedSegment& segment = at(index);
  codecs_[segment.codec]->decode_add(segment.bytes, weight, sum);
}

void Decoder::add_weight(std::size_t index, float weight, std::span<float> weights) const {
  const compression::EncodedSegment& segment = at(index);
  codecs_[segment.codec]->add_weight(segment.bytes, weight, weights);
}

double Decoder::norm_squared_bound(std::size_t index) const {
  const compression::EncodedSegment& segment = at(index);
  return codecs_[segment.codec]->norm_squared_bound(segment.bytes, segment.element_count);
}

}  // namespace causeway::intra
