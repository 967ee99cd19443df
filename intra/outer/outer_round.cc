#include "intra/outer/outer_round.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "compression/codecs/payload.h"
#include "intra/base/float_mode.h"
#include "intra/collective/collective.h"

namespace causeway::intra {

namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

// Where the open work began.
Flat base(const OuterState& state) {
  return state.mark.empty() ? Flat::anchor : Flat::mark;
}

std::string name_at(const diloco::Layout& layout, const diloco::Segment& segment) {
  if (diloco::is_statistic(segment.kind)) return "buffers";
  return segment.kind == diloco::SegmentClass::vector ? "vectors"
                                                      : layout.tensor_at(segment.offset).spec.name;
}

}  // namespace

OuterRound::OuterRound(const Place& place, const CodecOptions& codec,
                       const diloco::OuterOptions& outer, const diloco::OverlapOptions& overlap,
                       const diloco::Layout& layout)
    : place_(place),
      feedback_(codec.feedback),
      policy_(codec, layout),
      outer_(outer),
      overlap_(overlap),
      ownership_(layout, diloco::Fragments(layout, overlap.fragments, overlap.order), place.rank,
                 place.world) {}

Encoding OuterRound::encode(Collective& collective, const Batch& batch, OuterState& state) const {
  HostSpans spans(ownership_.layout(), state);
  return encode(collective, batch, state, spans);
}

Encoding OuterRound::encode(Collective& collective, const Batch& batch, OuterState& state,
                            OuterSpans& spans) const {
  Encoding encoding = take_delta(collective, batch, state, spans);
  encode_delta(collective, state, spans, encoding);
  return encoding;
}

Encoding OuterRound::take_delta(Collective& collective, const Batch& batch, OuterState& state,
                                OuterSpans& spans) const {
  restore_float_mode();
  state.intact = false;
  const auto bad =
      spans.take_delta(base(state), policy_.decay(), ownership_.mine(fragment_of(state)));
  Encoding encoding{
      .part = state.next_part(), .tensors = {}, .not_finite = first_not_finite(collective, bad)};
  InFlight in_flight;
  diloco::Contribution& made = in_flight.contribution;
  made = {.run_id = state.run_id,
          .region = place_.region,
          .round = state.version,
          .part = encoding.part,
          .sits_out = !encoding.not_finite.empty(),
          .tokens = state.work.steps * batch.tokens,
          .steps = state.work.steps,
          .compute_s = state.work.compute_s,
          .data_begin = state.work.data_cursor,
          .data_cursor = state.work.data_cursor + state.work.steps * batch.samples,
          .state = state.digest,
          .held_out_loss = state.held_out_loss};
  state.work = {.data_cursor = made.data_cursor, .steps = 0, .compute_s = 0};
  if (made.sits_out) {
    spans.copy(base(state), Flat::params);
  } else if (overlap_.encodes_beside_steps()) {
    go_on_from(collective, state, spans);
  }
  state.put_in_flight(std::move(in_flight));
  return encoding;
}

void OuterRound::encode_delta(Collective& collective, OuterState& state, OuterSpans& spans,
                              Encoding& encoding) const {
  InFlight& made = *state.own(encoding.part);
  if (!made.contribution.sits_out) {
    restore_float_mode();
    const std::size_t fragment = fragment_of(state);
    together(collective, "encoding", [&] { encode_own(state, encoding.part, spans); });
    std::vector<std::vector<std::byte>> gathered;
    std::vector<std::span<const std::byte>> by_rank{spans.encoding};
    if (collective.size() > 1) {
      gathered = collective.all_gather(spans.encoding);
      by_rank.assign(gathered.begin(), gathered.end());
    }
    together(collective, "assembling a payload",
             [&] { encoding.tensors = assemble(by_rank, fragment, made); });
    if (feedback_) spans.complete(collective, ownership_.by_rank(fragment), Flat::residual);
    if (!overlap_.encodes_beside_steps()) go_on_from(collective, state, spans);
  }
  state.intact = true;
}

// Where the next steps start, and what they are counted from.
void OuterRound::go_on_from(Collective& collective, OuterState& state, OuterSpans& spans) const {
  switch (overlap_.variant) {
    case Variant::synchronous:
      return state.mark.clear();
    case Variant::streaming:
      if (state.mark.empty()) spans.copy(Flat::anchor, Flat::mark);
      return spans.copy(Flat::params, Flat::mark,
                        ownership_.fragments().segments(fragment_of(state)));
    case Variant::delayed:
      spans.copy(Flat::anchor, Flat::params);
      break;
    case Variant::eager:
      start_ahead(collective, state, spans);
      break;
  }
  spans.copy(Flat::params, Flat::mark);
}

// From where the record under way will move the anchor, as far as this region's own contribution
// tells: by the share of it that the last record confirmed. Counting it for 1 / regions, as
// published, leaves out what all learn alike; counting all of it, what only this region sees.
void OuterRound::start_ahead(Collective& collective, const OuterState& state,
                             OuterSpans& spans) const {
  spans.copy(Flat::anchor, Flat::params);
  for (const InFlight& own : state.in_flight) {
    if (!own.payload.empty())
      add_own(own, -diloco::immediate_gain(outer_) * state.confirmed_share, Flat::params, spans);
  }
  spans.complete(collective, ownership_.by_rank(), Flat::params);
}

// Canonical order, so that all ranks name the same one.
std::string OuterRound::first_not_finite(Collective& collective,
                                         std::optional<std::size_t> own) const {
  std::uint64_t bad = own.value_or(kNone);
  for (const auto& bytes : collective.all_gather(std::as_bytes(std::span(&bad, 1)))) {
    std::uint64_t other = kNone;
    assert(bytes.size() == sizeof other);
    std::memcpy(&other, bytes.data(), sizeof other);
    bad = std::min(bad, other);
  }
  if (bad == kNone) return {};
  const diloco::Layout& layout = ownership_.layout();
  return name_at(layout, layout.segments()[bad]);
}

// How each own segment was encoded, then their encodings.
void OuterRound::encode_own(const OuterState& state, std::uint32_t part, OuterSpans& spans) const {
  const Segments mine = ownership_.mine(fragment_of(state));
  const std::size_t heads_bytes = mine.size() * sizeof(CodecPolicy::Encoded);
  spans.encoding.reserve(heads_bytes + policy_.encoded_bytes_max(ownership_.layout(), mine));
  spans.encoding.resize(heads_bytes);
  const auto heads = spans.encode(policy_,
                                  {.seed = place_.seed + part,
                                   .round = static_cast<std::uint32_t>(state.version),
                                   .region = place_.region_index},
                                  mine, spans.encoding);
  std::ranges::copy(std::as_bytes(std::span(heads)), spans.encoding.begin());
}

// Every rank assembles the same payload: any of them may have to return its part to the residual.
std::vector<TensorEncoding> OuterRound::assemble(
    std::span<const std::span<const std::byte>> by_rank, std::size_t fragment,
    InFlight& made) const {
  const auto segments = ownership_.fragments().segments(fragment);
  std::vector<compression::EncodedSegment> encoded(segments.size());
  std::vector<CodecPolicy::Encoded> heads(segments.size());
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Segments owned = ownership_.by_rank(fragment)[rank];
    std::span<const std::byte> own_heads = by_rank[rank];
    std::span<const std::byte> bytes = own_heads.subspan(owned.size() * sizeof heads[0]);
    for (const std::size_t index : owned) {
      const auto place =
          static_cast<std::size_t>(std::ranges::lower_bound(segments, index) - segments.begin());
      std::memcpy(&heads[place], own_heads.data(), sizeof heads[0]);
      own_heads = own_heads.subspan(sizeof heads[0]);
      assert(bytes.size() >= heads[place].bytes);
      encoded[place] = {static_cast<std::uint32_t>(index),
                        static_cast<std::uint32_t>(ownership_.layout().segments()[index].count),
                        heads[place].codec, bytes.first(heads[place].bytes)};
      bytes = bytes.subspan(heads[place].bytes);
    }
    assert(bytes.empty());
  }
  const std::vector<std::byte> head = compression::payload_head(policy_.specs(), encoded);
  std::vector<std::span<const std::byte>> pieces{head};
  for (const compression::EncodedSegment& segment : encoded) pieces.push_back(segment.bytes);
  made.payload = OwnPayload(diloco::SealedBytes(pieces));
  return report(segments, heads, made.contribution);
}

// In canonical order, so that the sums do not depend on the number of ranks either.
std::vector<TensorEncoding> OuterRound::report(Segments segments,
                                               std::span<const CodecPolicy::Encoded> heads,
                                               diloco::Contribution& made) const {
  const diloco::Layout& layout = ownership_.layout();
  std::vector<TensorEncoding> tensors;
  double delta_squared = 0;
  compression::EncodeStats total;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    // A region's weight follows from its parameters alone.
    if (!diloco::is_statistic(layout.segments()[segments[i]].kind))
      delta_squared += heads[i].delta_squared;
    total += heads[i].stats;
    const std::string name = name_at(layout, layout.segments()[segments[i]]);
    if (tensors.empty() || tensors.back().tensor != name)
      tensors.push_back({.tensor = name, .spec = policy_.specs()[heads[i].codec]});
    TensorEncoding& tensor = tensors.back();
    tensor.stats += heads[i].stats;
    tensor.bytes += heads[i].bytes;
    if (!heads[i].stepped_up) continue;
    tensor.stepped_up = true;
    tensor.spec = policy_.specs()[heads[i].codec];
  }
  made.delta_norm = std::sqrt(delta_squared);
  made.error_norm = std::sqrt(total.error_norm_squared);
  return tensors;
}

}  // namespace causeway::intra
