// OuterRound: what becomes of a commit record.
#include <algorithm>
#include <cassert>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "diloco/files/error.h"
#include "intra/base/error.h"
#include "intra/base/float_mode.h"
#include "intra/collective/collective.h"
#include "intra/outer/confirmed_share.h"
#include "intra/outer/decoder.h"
#include "intra/outer/outer_round.h"

namespace causeway::intra {
namespace {

// Those whose class `wanted` has.
template <typename Wanted>
std::vector<std::size_t> only(const diloco::Layout& layout, Segments segments,
                              const Wanted& wanted) {
  std::vector<std::size_t> found;
  std::ranges::copy_if(segments, std::back_inserter(found),
                       [&](std::size_t index) { return wanted(layout.segments()[index].kind); });
  return found;
}

// The first that is listed in its own round, whole.
std::size_t place_of_lowest(const diloco::CommitRecord& record) {
  const auto found = std::ranges::find_if(record.participants, [&](const auto& one) {
    return one.round == record.round && one.part == 0;
  });
  return static_cast<std::size_t>(found - record.participants.begin());
}

// Of a payload, for messages.
std::string name_of(const diloco::CommitRecord& record, std::size_t place) {
  return "the payload of region " + record.participants[place].region + " in round " +
         std::to_string(record.round);
}

bool has(const std::vector<Outcome>& outcomes, Fate fate) {
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
  assert(record.round == state.version && payloads.size() == record.participants.size());
  check_state(record, state);
  restore_float_mode();
  std::optional<float> share;
  together(collective, "decoding", [&] {
    reduce(record, payloads, spans);
    if (overlap_.variant != Variant::eager) return;
    share = confirmed_share(record, payloads, place_.region, ownership_.layout(),
                            ownership_.fragments().segments(fragment_of(state)));
  });

  state.intact = false;
  const std::size_t fragment = fragment_of(state);
  if (!synchronous() && state.mark.empty()) spans.copy(Flat::anchor, Flat::mark);
  step(record, ownership_.mine(fragment), spans);
  const SegmentsByRank& by_rank = ownership_.by_rank(fragment);
  spans.complete(collective, by_rank, Flat::anchor);
  if (outer_.kind != diloco::OuterOptions::Kind::sgd)
    spans.complete(collective, by_rank, Flat::momentum);
  std::vector<Outcome> outcomes;
  together(collective, "settling own contributions",
           [&] { outcomes = settle_own(record, state, spans); });
  if (has(outcomes, Fate::returned))
    spans.complete(collective, ownership_.by_rank(), Flat::residual);
  const auto root = [&](Flat which, std::vector<diloco::Digest>& leaves) {
    return ownership_.root(collective, fragment, spans, which, leaves);
  };
  const diloco::Digest anchor_root = root(Flat::anchor, state.leaves.anchor);
  state.digest = diloco::state_digest(anchor_root, root(Flat::momentum, state.leaves.momentum));
  follow_anchor(state, synchronous() || has(outcomes, Fate::forgotten), spans);
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
  throw std::system_error(diloco::Errc::divergence, "round " + std::to_string(record.round) +
                                                        " was decided for state " +
                                                        diloco::to_hex(record.state).substr(0, 12) +
                                                        " but region " + place_.region + " holds " +
                                                        diloco::to_hex(state.digest).substr(0, 12));
}

void OuterRound::reduce(const diloco::CommitRecord& record,
                        std::span<const std::span<const std::byte>> payloads,
                        OuterSpans& spans) const {
  const std::size_t fragment = ownership_.fragments().of_round(record.round);
  const Segments mine = ownership_.mine(fragment);
  const auto lowest = only(ownership_.layout(), mine,
                           [](auto kind) { return kind == diloco::SegmentClass::lowest; });
  const auto others = only(ownership_.layout(), mine,
                           [](auto kind) { return kind != diloco::SegmentClass::lowest; });
  const auto decoders = decoders_of(record, payloads, fragment);
  std::vector<OuterSpans::Term> all, of_lowest;
  for (std::size_t i = 0; i < decoders.size(); ++i) {
    all.push_back({&decoders[i], record.participants[i].weight, name_of(record, i)});
    if (i == place_of_lowest(record)) of_lowest.push_back({&decoders[i], 1.0F, name_of(record, i)});
  }
  spans.sum(all, others);
  spans.sum(of_lowest, lowest);
}

std::vector<Decoder> OuterRound::decoders_of(const diloco::CommitRecord& record,
                                             std::span<const std::span<const std::byte>> payloads,
                                             std::size_t fragment) const {
  std::vector<Decoder> decoders;
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    try {
      decoders.emplace_back(payloads[i], ownership_.layout(),
                            ownership_.fragments().segments(fragment));
    } catch (const std::system_error& error) {
      throw std::system_error(error.code(), name_of(record, i) + ": " + message_of(error));
    }
  }
  return decoders;
}

std::vector<Outcome> OuterRound::settle_own(const diloco::CommitRecord& record, OuterState& state,
                                            OuterSpans& spans) const {
  Settled settled = settle(
      record, {.region = place_.region, .feedback = feedback_, .follows_anchor = synchronous()},
      state);
  if (settled.forget_residual) spans.clear(Flat::residual, spans.everything());
  for (const InFlight& returned : settled.returned) add_own(returned, 1.0F, Flat::residual, spans);
  return std::move(settled.outcomes);
}

// which += weight * Q, on the own segments. What did not count of a statistic is gone with its
// round: the next one says what it is then.
void OuterRound::add_own(const InFlight& own, float weight, Flat which, OuterSpans& spans) const {
  const std::size_t fragment = ownership_.fragments().of_round(own.contribution.round);
  const Decoder decoder(own.payload.bytes(), ownership_.layout(),
                        ownership_.fragments().segments(fragment));
  const auto steps = only(ownership_.layout(), ownership_.mine(fragment),
                          [](auto kind) { return !diloco::is_statistic(kind); });
  spans.add(decoder, weight, which, steps);
}

// With too little weight behind the mean, momentum is left out of it: anchor <- anchor - lr * mean
// (docs/rounds.md, "One round").
void OuterRound::step(const diloco::CommitRecord& record, Segments segments,
                      OuterSpans& spans) const {
  diloco::OuterOptions options = outer_;
  options.momentum = record.momentum.value_or(outer_.momentum);
  // Delayed Nesterov is for rounds of little weight.
  using Kind = diloco::OuterOptions::Kind;
  if (record.skip_momentum && options.kind == Kind::nesterov) options.kind = Kind::sgd;
  spans.outer_step(options, record.round / ownership_.fragments().count(), segments);
}

}  // namespace causeway::intra
