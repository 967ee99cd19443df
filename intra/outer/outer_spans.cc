#include "intra/outer/outer_spans.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>

#include "diloco/maths/outer.h"

namespace causeway::intra {
namespace {

bool all_finite(std::span<const float> delta, float beta, std::span<const float> residual) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(beta * residual[i] + delta[i]);
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

}  // namespace

OuterSpans::OuterSpans(const diloco::Layout& layout)
    : layout_(&layout), everything_(layout.segments().size()) {
  std::iota(everything_.begin(), everything_.end(), std::size_t{0});
}

compression::EncodeKey OuterSpans::key_of(compression::EncodeKey key, std::size_t index) const {
  key.first_element = layout_->segments()[index].offset;
  return key;
}

std::span<float> HostSpans::part(Flat which, std::size_t index) {
  const diloco::Segment& segment = layout().segments()[index];
  return std::span(state_.flat(which)).subspan(segment.offset, segment.count);
}

void HostSpans::copy(Flat from, Flat to, Segments segments) {
  state_.flat(to).resize(layout().size());
  for (const std::size_t index : segments)
    std::ranges::copy(part(from, index), part(to, index).begin());
}

void HostSpans::clear(Flat which, Segments segments) {
  for (const std::size_t index : segments) std::ranges::fill(part(which, index), 0.0F);
}

std::optional<std::size_t> HostSpans::take_delta(Flat base, float beta, Segments segments) {
  for (const std::size_t index : segments) {
    const auto delta = part(Flat::scratch, index);
    diloco::pseudo_gradient(part(base, index), part(Flat::params, index), delta);
    if (!all_finite(delta, beta, part(Flat::residual, index))) return index;
  }
  return std::nullopt;
}

std::vector<CodecPolicy::Encoded> HostSpans::encode(const CodecPolicy& policy,
                                                    const compression::EncodeKey& key,
                                                    Segments segments,
                                                    std::vector<std::byte>& out) {
  std::vector<CodecPolicy::Encoded> encoded;
  for (const std::size_t index : segments) {
    encoded.push_back(policy.encode(index, part(Flat::scratch, index), part(Flat::residual, index),
                                    out, key_of(key, index)));
  }
  return encoded;
}

void HostSpans::add(const Decoder& payload, float weight, Flat which, Segments segments) {
  for (const std::size_t index : segments) payload.add(index, weight, part(which, index));
}

void HostSpans::outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                           Segments segments) {
  const diloco::OuterOptions plain{.kind = diloco::OuterOptions::Kind::sgd, .lr = 1.0F};
  for (const std::size_t index : segments) {
    const bool statistic = diloco::is_statistic(layout().segments()[index].kind);
    diloco::outer_step(statistic ? plain : options, part(Flat::scratch, index),
                       part(Flat::anchor, index), part(Flat::momentum, index), turn);
  }
}

void HostSpans::mix(float alpha, Segments segments) {
  for (const std::size_t index : segments) {
    diloco::mix(alpha, part(Flat::anchor, index), part(Flat::mark, index),
                part(Flat::params, index));
  }
}

std::vector<diloco::Digest> HostSpans::leaves(Flat which, Segments segments) {
  std::vector<diloco::Digest> leaves;
  for (const std::size_t index : segments) {
    const auto own = diloco::merkle_leaves(part(which, index));
    leaves.insert(leaves.end(), own.begin(), own.end());
  }
  return leaves;
}

void HostSpans::complete(Collective& hosts, const SegmentsByRank& segments, Flat which) {
  if (segments.size() == 1) return;
  std::vector<std::byte> own;
  for (const std::size_t index : segments[hosts.rank()]) {
    const auto bytes = std::as_bytes(part(which, index));
    own.insert(own.end(), bytes.begin(), bytes.end());
  }
  const auto gathered = hosts.all_gather(own);
  for (std::size_t rank = 0; rank < segments.size(); ++rank) {
    const std::byte* from = gathered[rank].data();
    for (const std::size_t index : segments[rank]) {
      const auto to = part(which, index);
      std::memcpy(to.data(), from, to.size_bytes());
      from += to.size_bytes();
    }
    assert(from == gathered[rank].data() + gathered[rank].size());
  }
}

}  // namespace causeway::intra
