#include "intra/outer/outer_spans.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <numeric>
#include <system_error>

#include "compression/base/codec.h"
#include "compression/base/parallel.h"
#include "diloco/maths/outer.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

constexpr std::uint32_t kExponent = 0x7F800000;
constexpr std::size_t kBlock = compression::kChunk;  // stays in a cache from one loop to the next

bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

bool all_finite(std::span<const float> delta, float beta, std::span<const float> residual) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(beta * residual[i] + delta[i]);
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

// Each by one thread. The bits are the same for any number.
template <typename Work>
void for_each(Segments segments, const Work& work) {
  compression::first_failure(
      segments.size(),
      [&](std::size_t i) {
        work(segments[i]);
        return true;
      },
      1);
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

void OuterSpans::add_term(const Term& term, Segments segments) {
  try {
    add(*term.payload, term.weight, Flat::scratch, segments);
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), term.name + ": " + message_of(error));
  }
}

void OuterSpans::sum(std::span<const Term> terms, Segments segments) {
  clear(Flat::scratch, segments);
  for (const Term& term : terms) add_term(term, segments);
}

std::span<float> HostSpans::part(Flat which, std::size_t index) {
  const diloco::Segment& segment = layout().segments()[index];
  return std::span(state_.flat(which)).subspan(segment.offset, segment.count);
}

// What is left over goes nowhere where there is no error feedback.
std::span<float> HostSpans::residual(std::size_t index) {
  if (!state_.residual.empty()) return part(Flat::residual, index);
  no_residual_.assign(layout().segments()[index].count, 0.0F);
  return no_residual_;
}

void HostSpans::copy(Flat from, Flat to, Segments segments) {
  state_.flat(to).resize(layout().size());
  for_each(segments, [&](std::size_t index) {
    std::ranges::copy(part(from, index), part(to, index).begin());
  });
}

void HostSpans::clear(Flat which, Segments segments) {
  if (state_.flat(which).empty()) return;
  for_each(segments, [&](std::size_t index) { std::ranges::fill(part(which, index), 0.0F); });
}

std::optional<std::size_t> HostSpans::take_delta(Flat base, float beta, Segments segments) {
  const bool feedback = !state_.residual.empty();
  const auto is_finite = [&](std::size_t place) {
    const std::size_t index = segments[place];
    const auto from = part(base, index), params = part(Flat::params, index),
               delta = part(Flat::scratch, index);
    for (std::size_t begin = 0; begin < delta.size(); begin += kBlock) {
      const auto block = delta.subspan(begin, kBlock);
      diloco::pseudo_gradient(from.subspan(begin, kBlock), params.subspan(begin, kBlock), block);
      if (feedback ? !all_finite(block, beta, part(Flat::residual, index).subspan(begin, kBlock))
                   : !all_finite(block))
        return false;
    }
    return true;
  };
  const std::size_t bad = compression::first_failure(segments.size(), is_finite, 1);
  return bad == compression::kNone ? std::nullopt : std::optional(segments[bad]);
}

std::vector<CodecPolicy::Encoded> HostSpans::encode(const CodecPolicy& policy,
                                                    const compression::EncodeKey& key,
                                                    Segments segments,
                                                    std::vector<std::byte>& out) {
  std::vector<CodecPolicy::Encoded> encoded;
  for (const std::size_t index : segments) {
    encoded.push_back(
        policy.encode(index, part(Flat::scratch, index), residual(index), out, key_of(key, index)));
  }
  return encoded;
}

void HostSpans::add(const Decoder& payload, float weight, Flat which, Segments segments) {
  for (const std::size_t index : segments) payload.add(index, weight, part(which, index));
}

void HostSpans::sum(std::span<const Term> terms, Segments segments) {
  for (std::size_t place = 0; place < segments.size(); ++place)
    OuterSpans::sum(terms, segments.subspan(place, 1));
}

void HostSpans::scale(std::span<const float> factors, std::size_t index) {
  const std::span<float> values = part(Flat::scratch, index);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
}

void HostSpans::outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                           Segments segments) {
  const diloco::OuterOptions plain{.kind = diloco::OuterOptions::Kind::sgd, .lr = 1.0F};
  for_each(segments, [&](std::size_t index) {
    const bool statistic = diloco::is_statistic(layout().segments()[index].kind);
    diloco::outer_step(statistic ? plain : options, part(Flat::scratch, index),
                       part(Flat::anchor, index), part(Flat::momentum, index), turn);
  });
}

void HostSpans::mix(float alpha, Segments segments) {
  for_each(segments, [&](std::size_t index) {
    diloco::mix(alpha, part(Flat::anchor, index), part(Flat::mark, index),
                part(Flat::params, index));
  });
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
  std::size_t most = 0;
  for (const auto& of_rank : segments) most = std::max(most, of_rank.size());
  // A segment of each rank at a time: all at once would take as much memory again.
  for (std::size_t turn = 0; turn < most; ++turn) {
    const auto of_turn = [&](std::size_t rank) {
      const bool has_one = turn < segments[rank].size();
      return has_one ? part(which, segments[rank][turn]) : std::span<float>();
    };
    const auto gathered = hosts.all_gather(std::as_bytes(of_turn(hosts.rank())));
    for (std::size_t rank = 0; rank < segments.size(); ++rank) {
      const std::span<float> to = of_turn(rank);
      assert(gathered[rank].size() == to.size_bytes());
      if (rank != hosts.rank() && !to.empty())
        std::memcpy(to.data(), gathered[rank].data(), to.size_bytes());
    }
  }
}

}  // namespace causeway::intra
