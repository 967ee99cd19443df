#include "intra/outer_round.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "compression/payload.h"
#include "diloco/error.h"
#include "intra/decoder.h"
#include "intra/float_mode.h"
#include "intra/optimizer.h"
#include "intra/together.h"

namespace causeway::intra {

// What precedes the bytes of one segment when they are gathered.
struct SegmentHead {
  double delta_squared = 0;
  compression::EncodeStats stats{};
  std::uint64_t bytes = 0;
  std::uint8_t codec = 0;
  bool stepped_up = false;
};

namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

bool all_finite(std::span<const float> delta, float beta, std::span<const float> residual) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(beta * residual[i] + delta[i]);
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

std::string name_at(const diloco::Layout& layout, const diloco::Segment& segment) {
  return segment.kind == diloco::SegmentClass::vector ? "vectors"
                                                      : layout.tensor_at(segment.offset).spec.name;
}

}  // namespace

OuterRound::OuterRound(const Place& place, const CodecOptions& codec,
                       const diloco::OuterOptions& outer, const diloco::OverlapOptions& overlap,
                       const diloco::Layout& layout)
    : place_(place),
      feedback_(codec.feedback),
      decay_(codec.feedback ? codec.feedback_decay : 0.0F),
      policy_(codec, layout),
      outer_(outer),
      overlap_(overlap),
      ownership_(layout, diloco::Fragments(layout, overlap.fragments, overlap.order), place.rank,
                 place.world) {}

// ---- Encoding ----

std::span<const float> OuterRound::base(const OuterState& state) const {
  return state.mark.empty() ? state.anchor : state.mark;
}

void OuterRound::take_delta(OuterState& state) const {
  for (const std::size_t index : ownership_.mine(fragment_of(state))) {
    diloco::pseudo_gradient(ownership_.segment(index, base(state)),
                            ownership_.segment(index, std::span<const float>(state.params)),
                            ownership_.segment(index, std::span<float>(state.scratch)));
  }
}

Encoding OuterRound::encode(Collective& collective, const Batch& batch, OuterState& state) const {
  restore_float_mode();
  state.intact = false;
  take_delta(state);
  Encoding encoding{
      .part = state.next_part(), .tensors = {}, .not_finite = first_not_finite(collective, state)};
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
  if (made.sits_out) {
    const auto from = base(state);
    std::copy(from.begin(), from.end(), state.params.begin());
  } else {
    std::vector<std::byte> own;
    together(collective, "encoding", [&] { own = encode_own(state); });
    encoding.tensors = assemble(collective.all_gather(own), fragment_of(state), in_flight);
    if (feedback_) ownership_.complete(collective, fragment_of(state), state.residual);
  }
  state.work = {.data_cursor = made.data_cursor, .steps = 0, .compute_s = 0};
  const bool sits_out = made.sits_out;
  state.put_in_flight(std::move(in_flight));
  if (!sits_out) go_on_from(collective, state);
  state.intact = true;
  return encoding;
}

// Where the next steps start, and what they are counted from.
void OuterRound::go_on_from(Collective& collective, OuterState& state) const {
  switch (overlap_.variant) {
    case Variant::synchronous:
      return state.mark.clear();
    case Variant::streaming:
      if (state.mark.empty()) state.mark = state.anchor;
      for (const std::size_t index : ownership_.fragments().segments(fragment_of(state))) {
        const auto from = ownership_.segment(index, std::span<const float>(state.params));
        std::ranges::copy(from, ownership_.segment(index, std::span<float>(state.mark)).begin());
      }
      return;
    case Variant::delayed:
      return void(state.mark = state.params = state.anchor);
    case Variant::eager:
      return start_ahead(collective, state);
  }
}

// From where the record under way will move the anchor, if the other regions learned as much as
// this one: its contributions stand for theirs. Counting them for 1 / regions, as published, leaves
// most of what was learned to come a round late.
void OuterRound::start_ahead(Collective& collective, OuterState& state) const {
  const float share = -diloco::immediate_gain(outer_);
  state.params = state.anchor;
  for (const InFlight& own : state.in_flight) {
    if (own.payload.empty()) continue;
    const std::size_t fragment = ownership_.fragments().of_round(own.contribution.round);
    const Decoder decoder(own.payload, ownership_.layout(),
                          ownership_.fragments().segments(fragment));
    for (const std::size_t index : ownership_.mine(fragment))
      decoder.add(index, share, ownership_.segment(index, std::span<float>(state.params)));
  }
  ownership_.complete(collective, state.params);
  state.mark = state.params;
}

// Canonical order, so that all ranks name the same one.
std::string OuterRound::first_not_finite(Collective& collective, const OuterState& state) const {
  std::uint64_t bad = kNone;
  for (const std::size_t index : ownership_.mine(fragment_of(state))) {
    if (bad != kNone) break;
    const bool finite =
        all_finite(ownership_.segment(index, std::span<const float>(state.scratch)), decay_,
                   ownership_.segment(index, std::span<const float>(state.residual)));
    if (!finite) bad = index;
  }
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

// For each own segment: its head, then its encoding.
std::vector<std::byte> OuterRound::encode_own(OuterState& state) const {
  std::vector<std::byte> own;
  for (const std::size_t index : ownership_.mine(fragment_of(state))) {
    const auto delta = ownership_.segment(index, std::span<const float>(state.scratch));
    const std::size_t head_at = own.size();
    own.resize(head_at + sizeof(SegmentHead));
    const auto encoded = policy_.encode(
        index, delta, ownership_.segment(index, std::span<float>(state.residual)), own,
        {.seed = place_.seed + state.next_part(),
         .round = static_cast<std::uint32_t>(state.version),
         .region = place_.region_index,
         .first_element = ownership_.layout().segments()[index].offset});
    const double norm = global_norm(delta);
    const SegmentHead head{norm * norm, encoded.stats, own.size() - head_at - sizeof(SegmentHead),
                           encoded.codec, encoded.stepped_up};
    std::memcpy(own.data() + head_at, &head, sizeof head);
  }
  return own;
}

// Every rank assembles the same payload: any of them may have to return its part to the residual.
std::vector<TensorEncoding> OuterRound::assemble(std::span<const std::vector<std::byte>> gathered,
                                                 std::size_t fragment, InFlight& made) const {
  const auto segments = ownership_.fragments().segments(fragment);
  std::vector<compression::EncodedSegment> encoded(segments.size());
  std::vector<SegmentHead> heads(segments.size());
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    std::span<const std::byte> rest = gathered[rank];
    for (const std::size_t index : ownership_.of(fragment, rank)) {
      const diloco::Segment& segment = ownership_.layout().segments()[index];
      const auto place = std::ranges::lower_bound(segments, index) - segments.begin();
      SegmentHead& head = heads[static_cast<std::size_t>(place)];
      assert(rest.size() >= sizeof head);
      std::memcpy(&head, rest.data(), sizeof head);
      rest = rest.subspan(sizeof head);
      assert(rest.size() >= head.bytes);
      encoded[static_cast<std::size_t>(place)] = {static_cast<std::uint32_t>(index),
                                                  static_cast<std::uint32_t>(segment.count),
                                                  head.codec, rest.first(head.bytes)};
      rest = rest.subspan(head.bytes);
    }
    assert(rest.empty());
  }
  made.payload = compression::write_payload(policy_.specs(), encoded);
  made.contribution.payload = {diloco::sha256(made.payload), made.payload.size()};
  return report(segments, heads, made.contribution);
}

// In canonical order, so that the sums do not depend on the number of ranks either.
std::vector<TensorEncoding> OuterRound::report(std::span<const std::size_t> segments,
                                               std::span<const SegmentHead> heads,
                                               diloco::Contribution& made) const {
  const diloco::Layout& layout = ownership_.layout();
  std::vector<TensorEncoding> tensors;
  double delta_squared = 0;
  compression::EncodeStats total;
  for (std::size_t i = 0; i < heads.size(); ++i) {
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

// ---- Applying ----

std::vector<Outcome> OuterRound::apply(Collective& collective, const diloco::CommitRecord& record,
                                       std::span<const std::span<const std::byte>> payloads,
                                       OuterState& state) const {
  assert(record.round == state.version && payloads.size() == record.participants.size());
  check_state(record, state);
  restore_float_mode();
  together(collective, "decoding", [&] { reduce(record, payloads, state.scratch); });

  state.intact = false;
  if (!synchronous() && state.mark.empty()) state.mark = state.anchor;
  std::vector<Outcome> outcomes;
  together(collective, "settling own contributions", [&] { outcomes = settle_own(record, state); });
  if (std::ranges::find(outcomes, Fate::returned, &Outcome::fate) != outcomes.end())
    ownership_.complete(collective, state.residual);
  step(record, state);
  const std::size_t fragment = fragment_of(state);
  ownership_.complete(collective, fragment, state.anchor);
  if (outer_.kind != diloco::OuterOptions::Kind::sgd)
    ownership_.complete(collective, fragment, state.momentum);
  const diloco::Digest anchor_root =
      ownership_.root(collective, fragment, state.anchor, state.leaves.anchor);
  const diloco::Digest momentum_root =
      ownership_.root(collective, fragment, state.momentum, state.leaves.momentum);
  state.digest = diloco::state_digest(anchor_root, momentum_root);
  const bool forgotten =
      std::ranges::find(outcomes, Fate::forgotten, &Outcome::fate) != outcomes.end();
  follow_anchor(state, synchronous() || forgotten);
  ++state.version;
  state.held_out_loss.reset();
  state.intact = true;
  return outcomes;
}

// Steps that no contribution holds yet stay, unless an earlier life of the worker contributed them.
void OuterRound::follow_anchor(OuterState& state, bool drop_open_work) const {
  if (drop_open_work) {
    state.params = state.anchor;
    state.mark.clear();
    state.work = {};
    return;
  }
  if (overlap_.variant != Variant::streaming) return;
  for (const std::size_t index : ownership_.fragments().segments(fragment_of(state))) {
    diloco::mix(overlap_.mixing, ownership_.segment(index, std::span<const float>(state.anchor)),
                ownership_.segment(index, std::span<float>(state.mark)),
                ownership_.segment(index, std::span<float>(state.params)));
  }
}

void OuterRound::check_state(const diloco::CommitRecord& record, const OuterState& state) const {
  if (record.state == state.digest) return;
  throw std::system_error(diloco::Errc::divergence, "round " + std::to_string(record.round) +
                                                        " was decided for state " +
                                                        diloco::to_hex(record.state).substr(0, 12) +
                                                        " but region " + place_.region + " holds " +
                                                        diloco::to_hex(state.digest).substr(0, 12));
}

void OuterRound::reduce(const diloco::CommitRecord& record,
                        std::span<const std::span<const std::byte>> payloads,
                        std::span<float> sum) const {
  const std::size_t fragment = ownership_.fragments().of_round(record.round);
  for (const std::size_t index : ownership_.mine(fragment)) {
    const auto part = ownership_.segment(index, sum);
    std::fill(part.begin(), part.end(), 0.0F);
  }
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const diloco::Participant& participant = record.participants[i];
    try {
      const Decoder decoder(payloads[i], ownership_.layout(),
                            ownership_.fragments().segments(fragment));
      for (const std::size_t index : ownership_.mine(fragment))
        decoder.add(index, participant.weight, ownership_.segment(index, sum));
    } catch (const std::system_error& error) {
      throw std::system_error(error.code(), "the payload of region " + participant.region +
                                                " in round " + std::to_string(record.round) + ": " +
                                                error.what());
    }
  }
}

std::vector<Outcome> OuterRound::settle_own(const diloco::CommitRecord& record,
                                            OuterState& state) const {
  Settled settled = settle(
      record, {.region = place_.region, .feedback = feedback_, .follows_anchor = synchronous()},
      state);
  if (settled.forget_residual) std::fill(state.residual.begin(), state.residual.end(), 0.0F);
  for (const InFlight& returned : settled.returned) {
    const std::size_t fragment = ownership_.fragments().of_round(returned.contribution.round);
    const Decoder decoder(returned.payload, ownership_.layout(),
                          ownership_.fragments().segments(fragment));
    for (const std::size_t index : ownership_.mine(fragment))
      decoder.return_to(index, ownership_.segment(index, std::span<float>(state.residual)));
  }
  return std::move(settled.outcomes);
}

// With too little weight behind the mean, momentum is left out of it: anchor <- anchor - lr * mean
// (algorithms.md 7.5, rule 4).
void OuterRound::step(const diloco::CommitRecord& record, OuterState& state) const {
  diloco::OuterOptions options = outer_;
  options.momentum = record.momentum.value_or(outer_.momentum);
  // Delayed Nesterov is for rounds of little weight.
  using Kind = diloco::OuterOptions::Kind;
  if (record.skip_momentum && options.kind == Kind::nesterov) options.kind = Kind::sgd;
  const std::uint64_t turn = record.round / ownership_.fragments().count();
  for (const std::size_t index : ownership_.mine(fragment_of(state))) {
    diloco::outer_step(options, ownership_.segment(index, std::span<const float>(state.scratch)),
                       ownership_.segment(index, std::span<float>(state.anchor)),
                       ownership_.segment(index, std::span<float>(state.momentum)), turn);
  }
}

}  // namespace causeway::intra
