#include "intra/outer/outer_round.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "compression/codecs/payload.h"
#include "diloco/files/error.h"
#include "intra/base/error.h"
#include "intra/base/float_mode.h"
#include "intra/collective/collective.h"
#include "intra/outer/confirmed_share.h"
#include "intra/outer/decoder.h"
#include "intra/outer/reduce.h"

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
  std::set<const InFlight*> damaged;  // by failing memory
  const auto add = [&](const InFlight& own) {
    if (own.payload.empty() || damaged.contains(&own)) return true;
    const float weight = -diloco::immediate_gain(outer_) * state.confirmed_share;
    if (add_own(own, weight, Flat::params, spans)) return true;
    damaged.insert(&own);
    return false;
  };
  do {
    spans.copy(Flat::anchor, Flat::params);
  } while (!std::ranges::all_of(state.in_flight, add));
  spans.complete(collective, ownership_.by_rank(), Flat::params);
}

// Canonical order, so that all ranks name the same one.
std::string OuterRound::first_not_finite(Collective& collective,
                                         std::optional<std::size_t> own) const {
  const std::uint64_t bad = lowest_of_ranks(collective, own.value_or(kNone));
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

// OuterRound: what becomes of a commit record.

namespace {

bool has(const std::vector<Outcome>& outcomes, ContributionFate fate) {
  return std::ranges::find(outcomes, fate, &Outcome::fate) != outcomes.end();
}

}  // namespace

std::vector<Outcome> OuterRound::apply(Collective& collective, const diloco::CommitRecord& record,
                                       std::span<const std::span<const std::byte>> payloads,
                                       OuterState& state) const {
  HostSpans spans(ownership_.layout(), state);
  return apply(collective, record, payloads, state, spans);
}

std::vector<Outcome> OuterRound::apply(Collective& collective, const diloco::CommitRecord& record,
                                       std::span<const std::span<const std::byte>> payloads,
                                       OuterState& state, OuterSpans& spans) const {
  assert(record.round == state.version && payloads.size() == applied_blobs(record).size());
  check_state(record, state);
  restore_float_mode();
  const Agreed agreed{record, payloads};
  const std::set<std::size_t> left_out = reduce(collective, ownership_, outer_.mean, agreed, spans);
  std::optional<float> share;
  // A sum does not say who sent what.
  if (overlap_.variant == Variant::eager && record.sums.empty()) {
    together(collective, "looking how far to look ahead", [&] {
      share = confirmed_share(agreed, left_out, place_.region, ownership_.layout(),
                              ownership_.fragments().segments(fragment_of(state)), outer_.mean);
    });
  }

  state.intact = false;
  const std::size_t fragment = fragment_of(state);
  if (!synchronous() && state.mark.empty()) spans.copy(Flat::anchor, Flat::mark);
  const OuterSpans::StepLeaves own = step(record, ownership_.mine(fragment), spans);
  const SegmentsByRank& by_rank = ownership_.by_rank(fragment);
  spans.complete(collective, by_rank, Flat::anchor);
  if (outer_.kind != diloco::OuterOptions::Kind::sgd)
    spans.complete(collective, by_rank, Flat::momentum);
  std::vector<Outcome> outcomes;
  together(collective, "settling own contributions",
           [&] { outcomes = settle_own(record, state, spans); });
  if (has(outcomes, ContributionFate::returned))
    spans.complete(collective, ownership_.by_rank(), Flat::residual);
  const auto hash = [&](Flat which, std::span<const diloco::Digest> leaves,
                        OuterState::Tree& tree) {
    tree.root = ownership_.root(collective, fragment, leaves, spans, which, tree.leaves);
  };
  hash(Flat::anchor, own.anchor, state.trees.anchor);
  hash(Flat::momentum, own.momentum, state.trees.momentum);
  state.digest = diloco::state_digest(state.trees.anchor.root, state.trees.momentum.root);
  follow_anchor(state, synchronous() || has(outcomes, ContributionFate::forgotten), spans);
  state.confirmed_share = share.value_or(state.confirmed_share);
  ++state.version;
  state.held_out_loss.reset();
  state.intact = true;
  return outcomes;
}

// Steps that no contribution holds yet stay, unless an earlier life of the worker contributed them.
void OuterRound::follow_anchor(OuterState& state, bool drop_open_work, OuterSpans& spans) const {
  if (drop_open_work) {
    spans.copy(Flat::anchor, Flat::params);
    state.mark.clear();
    state.work = {};
  } else if (overlap_.variant == Variant::streaming) {
    spans.mix(overlap_.mixing, ownership_.fragments().segments(fragment_of(state)));
  }
}

void OuterRound::check_state(const diloco::CommitRecord& record, const OuterState& state) const {
  if (record.state == state.digest) return;
  throw std::system_error(diloco::Errc::divergence,
                          fmt::format("round {} was decided for state {} but region {} holds {}",
                                      record.round, diloco::to_hex(record.state).substr(0, 12),
                                      place_.region, diloco::to_hex(state.digest).substr(0, 12)));
}

std::vector<Outcome> OuterRound::settle_own(const diloco::CommitRecord& record, OuterState& state,
                                            OuterSpans& spans) const {
  Settled settled = settle(
      record, {.region = place_.region, .feedback = feedback_, .follows_anchor = synchronous()},
      state);
  if (settled.forget_residual) spans.clear(Flat::residual, spans.everything());
  for (const InFlight& returned : settled.returned) {
    // To the scratch first: no part of a damaged one may get into the residual.
    spans.clear(Flat::scratch, spans.everything());
    if (add_own(returned, 1.0F, Flat::scratch, spans))
      add_own(returned, 1.0F, Flat::residual, spans);
  }
  return std::move(settled.outcomes);
}

// which += weight * Q, on the own segments. What did not count of a statistic is gone with its
// round: the next one says what it is then. False: it cannot be decoded, and `which` may hold
// anything there.
bool OuterRound::add_own(const InFlight& own, float weight, Flat which, OuterSpans& spans) const {
  const std::size_t fragment = ownership_.fragments().of_round(own.contribution.round);
  try {
    const Decoder decoder(own.payload.bytes(), ownership_.layout(),
                          ownership_.fragments().segments(fragment));
    const auto steps = only(ownership_.layout(), ownership_.mine(fragment),
                            [](auto kind) { return !diloco::is_statistic(kind); });
    spans.add(decoder, weight, which, steps);
  } catch (const std::system_error& error) {
    if (!is_undecodable(error.code())) throw;
    spdlog::error(
        "what this region contributed to round {} cannot be decoded ({}): this host's memory "
        "fails. It is left out",
        own.contribution.round, message_of(error));
    return false;
  }
  return true;
}

// With too little weight behind the mean, momentum is left out of it: anchor <- anchor - lr * mean
// (docs/rounds.md, "Weights").
OuterSpans::StepLeaves OuterRound::step(const diloco::CommitRecord& record, Segments segments,
                                        OuterSpans& spans) const {
  diloco::OuterOptions options = outer_;
  options.momentum = record.momentum.value_or(outer_.momentum);
  // Delayed Nesterov is for rounds of little weight.
  using Kind = diloco::OuterOptions::Kind;
  if (record.skip_momentum && options.kind == Kind::nesterov) options.kind = Kind::sgd;
  return spans.outer_step_and_leaves(options, record.round / ownership_.fragments().count(),
                                     segments);
}

}  // namespace causeway::intra
