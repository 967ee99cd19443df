// Small states of a region, and outer rounds on them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs/payload.h"
#include "intra/outer/outer_round.h"
#include "tests/intra/collective/on_ranks.h"

namespace causeway::intra {

using Bytes = std::vector<std::byte>;
using Views = std::vector<std::span<const std::byte>>;

// Five matrices of one or two chunks and two vectors that share a segment.
inline const diloco::Layout& layout() {
  static const diloco::Layout small({{"a", {64, 64}},
                                     {"b", {100, 64}},
                                     {"c", {3, 5}},
                                     {"d", {64, 64}},
                                     {"e", {80, 80}},
                                     {"x", {70}},
                                     {"y", {9}}});
  return small;
}

inline constexpr const char* kExact = "dense:fp32";
inline constexpr OuterRound::Batch kBatch{6, 48};
inline constexpr const char* kSparse = "topk:k=64,chunk=4096";

inline CodecOptions codec(const std::string& spec, bool feedback = true) {
  CodecOptions options;
  options.matrix = spec;
  options.vector = kExact;
  options.feedback = feedback;
  return options;
}

inline diloco::OuterOptions averaging() {
  return {diloco::OuterOptions::Kind::sgd, 1.0F, 0.0F};
}

inline OuterRound make_round(const CodecOptions& options, const diloco::OuterOptions& outer,
                             const std::string& region = "us") {
  return OuterRound({.region = region}, options, outer, {}, layout());
}

// Writes draw() to every element that is not padding.
template <typename Draw>
void fill(std::vector<float>& flat, Draw&& draw) {
  for (const diloco::PlacedTensor& tensor : layout().tensors()) {
    for (std::size_t i = 0; i < tensor.spec.count(); ++i) flat[tensor.offset + i] = draw();
  }
}

// Multiples of 2^-12 in [-1, 1]: sums and halves of them are exact in fp32.
inline void fill_dyadic(std::vector<float>& flat, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  fill(flat,
       [&] { return static_cast<float>(static_cast<int>(engine() % 8193) - 4096) * 0x1p-12F; });
}

inline void fill_real(std::vector<float>& flat, std::uint64_t seed, float scale) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  fill(flat, [&] { return normal(engine); });
}

// A region at version 0 with its own parameters on a shared anchor.
inline OuterState dyadic_state(std::uint64_t region) {
  OuterState state(layout());
  fill_dyadic(state.anchor, 1);
  fill_dyadic(state.params, 100 + region);
  state.digest = whole_digest(state);
  state.work.steps = 4;
  return state;
}

inline OuterState real_state(std::uint64_t region) {
  OuterState state(layout());
  fill_real(state.anchor, 1, 0.05F);
  fill_real(state.params, 100 + region, 1e-3F);
  for (std::size_t i = 0; i < state.params.size(); ++i) state.params[i] += state.anchor[i];
  fill_real(state.residual, 200 + region, 1e-4F);
  state.digest = whole_digest(state);
  state.work.steps = 4;
  return state;
}

inline diloco::CommitRecord record_of(const OuterState& state,
                                      const std::vector<std::pair<std::string, Bytes>>& listed) {
  diloco::CommitRecord record;
  record.round = state.version;
  record.state = state.digest;
  record.expired_before = state.version + 1;
  for (const auto& [region, payload] : listed) {
    diloco::Participant participant;
    participant.region = region;
    participant.round = state.version;
    participant.weight = 1.0F / static_cast<float>(listed.size());
    participant.payload = {diloco::tree_hash(payload), payload.size()};
    record.participants.push_back(participant);
  }
  return record;
}

inline std::size_t forgotten(const std::vector<Outcome>& outcomes) {
  return static_cast<std::size_t>(
      std::count_if(outcomes.begin(), outcomes.end(),
                    [](const auto& o) { return o.fate == ContributionFate::forgotten; }));
}

// Applies a round that lists these payloads to `state`, in a region of one rank.
inline std::vector<Outcome> apply(const OuterRound& round, OuterState& state,
                                  const std::vector<std::pair<std::string, Bytes>>& listed) {
  const auto alone = make_collective({});
  Views views;
  for (const auto& [region, payload] : listed) views.push_back(payload);
  return round.apply(*alone, record_of(state, listed), views, state);
}

MATCHER_P(Are, fate, "") {
  return arg.size() == 1 && arg[0].fate == fate;
}

// A copy of its payload.
inline Bytes bytes_of(const InFlight& own) {
  const auto bytes = own.payload.bytes();
  return {bytes.begin(), bytes.end()};
}

inline Bytes encode(const OuterRound& round, OuterState& state) {
  const auto alone = make_collective({});
  const Encoding encoding = round.encode(*alone, kBatch, state);
  EXPECT_EQ(encoding.not_finite, "");
  return bytes_of(state.in_flight.back());
}

// What a region ends with.
struct Ended {
  Bytes payload;
  std::vector<float> anchor, momentum, residual;
  diloco::Digest digest;
  double delta_norm = 0, error_norm = 0;
  bool operator==(const Ended&) const = default;
};

// The payload with other specs and segments.
inline Bytes rewritten(
    const Bytes& whole,
    const std::function<void(std::vector<std::string>&, std::vector<compression::EncodedSegment>&)>&
        change) {
  compression::Payload payload = compression::read_payload(whole);
  change(payload.codec_specs, payload.segments);
  return compression::write_payload(payload.codec_specs, payload.segments);
}

// With several ranks, only the one that decodes it sees it.
inline Bytes with_a_damaged_segment(const Bytes& whole, std::size_t damaged) {
  const Bytes nonsense(compression::read_payload(whole).segments[damaged].bytes.size(),
                       std::byte{0xFF});
  return rewritten(whole,
                   [&](auto&, auto& segments) { segments[damaged].bytes = std::span(nonsense); });
}

}  // namespace causeway::intra
