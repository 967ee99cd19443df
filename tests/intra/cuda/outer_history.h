// Several outer rounds of a region, in the state itself or on a backend, with all that can become
// of its contributions: what must have the same bits wherever it is computed.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "intra/cuda/step/device_spans.h"
#include "intra/cuda/step/device_stepper.h"
#include "tests/intra/outer/outer_round_fixture.h"

namespace causeway::intra::cuda {

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

struct HistoryCase {
  std::string name;
  CodecOptions codec;
  diloco::OuterOptions outer = {};
  diloco::OverlapOptions overlap = {};
  std::size_t world = 1;
  bool offload = false;
};

inline std::vector<HistoryCase> history_cases() {
  using Kind = diloco::OuterOptions::Kind;
  using Mean = diloco::OuterOptions::Mean;
  using Variant = diloco::OverlapOptions::Variant;
  const std::string int8 = "dense:int8,block=128";
  CodecOptions both_int8 = codec(int8), stepping_up = codec(kSparse), mixed = codec(int8);
  both_int8.vector = int8;
  stepping_up.error_max = 0.5;
  stepping_up.step_up = {"topk:k=512", "dense:int4", "dense:int8", "dense:fp32"};
  mixed.tensors = {{"b", kSparse}, {"d", "dense:int8,block=32"}};
  const diloco::OverlapOptions streaming{.variant = Variant::streaming, .fragments = 2};
  return {
      {.name = "int8", .codec = both_int8},
      {.name = "int8_without_feedback", .codec = codec(int8, false)},
      {.name = "topk", .codec = codec(kSparse)},
      {.name = "dense_on_the_host", .codec = codec(kExact), .outer = {Kind::sgd, 0.7F}},
      {.name = "mixed", .codec = mixed, .outer = {Kind::delayed_nesterov, 0.6F, 0.9F, 2}},
      {.name = "by_senders",
       .codec = mixed,
       .outer = {.kind = Kind::sgd, .lr = 1.0F, .mean = Mean::senders}},
      {.name = "by_senders_eager",
       .codec = codec(kSparse),
       .outer = {.kind = Kind::sgd, .lr = 1.0F, .mean = Mean::senders},
       .overlap = {.variant = Variant::eager}},
      {.name = "by_senders_offloaded",
       .codec = codec(kSparse),
       .outer = {.kind = Kind::sgd, .lr = 1.0F, .mean = Mean::senders},
       .world = 2,
       .offload = true},
      {.name = "stepping_up", .codec = stepping_up},
      {.name = "streaming", .codec = codec(kSparse), .overlap = streaming},
      {.name = "delayed", .codec = both_int8, .overlap = {.variant = Variant::delayed}},
      {.name = "eager", .codec = codec(kSparse), .overlap = {.variant = Variant::eager}},
      {.name = "two_ranks", .codec = both_int8, .world = 2},
      {.name = "three_ranks_eager",
       .codec = codec(kSparse),
       .overlap = {.variant = Variant::eager},
       .world = 3},
      {.name = "three_ranks_streaming", .codec = both_int8, .overlap = streaming, .world = 3},
      {.name = "offloaded", .codec = mixed, .offload = true},
      {.name = "two_ranks_offloaded",
       .codec = codec(kSparse),
       .overlap = streaming,
       .world = 2,
       .offload = true},
  };
}

// A state, and the spans that rounds compute on: the state's own without a backend.
class RegionOfHistory {
 public:
  RegionOfHistory(const HistoryCase& tested, Collective& group, std::unique_ptr<Backend> backend)
      : state(real_state(0)),
        round_({.region = "us", .rank = group.rank(), .world = group.size()}, tested.codec,
               tested.outer, tested.overlap, layout()),
        group_(group),
        backend_(std::move(backend)),
        host_(layout(), state) {
    if (!backend_) return;
    if (tested.overlap.encodes_beside_steps()) beside_ = backend_->beside();
    Queue& queue = beside_ ? *beside_ : *backend_;
    params_.emplace(*backend_, layout().size());
    scratch_.emplace(*backend_, layout().size());
    if (group.size() > 1) {
      on_device_ = backend_->group(group, std::chrono::seconds(60));
      if (!on_device_) on_device_ = make_host_sums(group, queue);
    }
    device_.emplace(layout(), *backend_, queue, *params_, scratch_->device(), tested.offload);
    device_->join(state, on_device_.get());
  }

  void train(std::uint64_t seed) {
    change_params([&] {
      std::vector<float> steps(layout().size());
      fill_real(steps, seed, 1e-3F);
      for (std::size_t i = 0; i < steps.size(); ++i) state.params[i] += steps[i];
    });
    state.work.steps += 2;
  }
  void go_to_infinity() {
    change_params([&] {
      for (const diloco::Segment& segment : layout().segments())
        state.params[segment.offset + 7] = std::numeric_limits<float>::infinity();
    });
    state.work.steps += 2;
  }
  Encoding encode() { return round_.encode(group_, kBatch, state, spans()); }
  std::vector<Outcome> apply(const diloco::CommitRecord& record, const Views& payloads) {
    return round_.apply(group_, record, payloads, state, spans());
  }
  void settle() {
    spans().settled(Flat::params);
    if (device_) device_->settle();
  }

  OuterState state;

 private:
  OuterSpans& spans() { return device_ ? static_cast<OuterSpans&>(*device_) : host_; }
  template <typename Change>
  void change_params(const Change& change) {
    spans().settled(Flat::params);
    change();
    if (params_) params_->changed_on_host();
  }

  OuterRound round_;
  Collective& group_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> beside_;
  HostSpans host_;
  std::optional<Mirror> params_, scratch_;
  std::unique_ptr<Collective> on_device_;
  std::optional<DeviceSpans> device_;
};

using Bits = std::vector<std::uint32_t>;

struct EndOfRound {
  std::string not_finite;
  Bytes payload;
  double delta_norm = 0, error_norm = 0;
  std::vector<Outcome> outcomes;
  diloco::Digest digest{};
  bool operator==(const EndOfRound&) const = default;
};

struct History {
  std::vector<EndOfRound> rounds;
  std::vector<Bits> spans;  // params, anchor, momentum, residual, mark
  bool operator==(const History&) const = default;
};

// What the other region contributes to each round.
inline std::vector<Bytes> contributions_of_another(const HistoryCase& tested, std::size_t rounds) {
  const OuterRound other({.region = "ap"}, tested.codec, tested.outer, tested.overlap, layout());
  std::vector<Bytes> made;
  OuterState state = real_state(7);
  for (std::size_t i = 0; i < rounds; ++i) {
    made.push_back(encode(other, state));
    state.in_flight.clear();
    ++state.version;
    fill_real(state.params, 700 + i, 1e-3F);
  }
  return made;
}

// One rank's.
inline History history(const HistoryCase& tested, Collective& group,
                       std::unique_ptr<Backend> backend) {
  constexpr std::size_t kRounds = 6, kUnlisted = 1, kForgotten = 2, kInfinite = 3, kNonsense = 4,
                        kSkipped = 5;
  const std::vector<Bytes> others = contributions_of_another(tested, kRounds);
  RegionOfHistory region(tested, group, std::move(backend));
  OuterState& state = region.state;
  History history;
  for (std::size_t i = 0; i < kRounds; ++i) {
    EndOfRound& end = history.rounds.emplace_back();
    if (i == kInfinite) region.go_to_infinity();
    end.not_finite = region.encode().not_finite;
    const InFlight& made = state.in_flight.back();
    end.payload = bytes_of(made);
    end.delta_norm = made.contribution.delta_norm;
    end.error_norm = made.contribution.error_norm;
    if (tested.overlap.variant != diloco::OverlapOptions::Variant::synchronous)
      region.train(400 + i);
    std::vector<std::pair<std::string, Bytes>> listed{
        {"ap", i == kNonsense ? with_a_damaged_segment(others[i], 0) : others[i]}};
    if (i != kUnlisted && i != kInfinite)
      listed.emplace_back("us", i == kForgotten ? others[i] : end.payload);
    diloco::CommitRecord record = record_of(state, listed);
    record.skip_momentum = i == kSkipped;
    Views views;
    for (const auto& [name, payload] : listed) views.emplace_back(payload);
    end.outcomes = region.apply(record, views);
    end.digest = state.digest;
    region.train(300 + i);
  }
  region.settle();
  for (const Flat which :
       {Flat::params, Flat::anchor, Flat::momentum, Flat::residual, Flat::mark}) {
    Bits& bits = history.spans.emplace_back();
    for (const float value : state.flat(which)) bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  EXPECT_EQ(history.rounds.back().digest, whole_digest(state));
  return history;
}

// Of every rank, the same from the host and from these backends.
inline void expect_same_history(const HistoryCase& tested, const MakeBackend& make_backend) {
  SCOPED_TRACE(tested.name);
  on_ranks(tested.world, [&](Collective& group) {
    const History expected = history(tested, group, nullptr);
    const History found = history(tested, group, make_backend());
    for (std::size_t i = 0; i < expected.rounds.size(); ++i)
      EXPECT_TRUE(found.rounds[i] == expected.rounds[i]) << tested.name << ", round " << i;
    for (std::size_t i = 0; i < expected.spans.size(); ++i)
      EXPECT_TRUE(found.spans[i] == expected.spans[i]) << tested.name << ", span " << i;
    EXPECT_NE(found.rounds[3].not_finite, "");
    EXPECT_FALSE(found.spans[0].empty());
  });
}

}  // namespace causeway::intra::cuda
