// Payloads of a region that lies about its norm, or that sends at once what many rounds left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/codecs/payload_sum.h"
#include "intra/outer/reduce.h"
#include "tests/intra/outer/outer_round_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

using Mean = diloco::OuterOptions::Mean;
using Payloads = std::vector<std::pair<std::string, Bytes>>;

// After so many times the steps that a region usually takes.
OuterState moving(std::uint64_t seed, float times) {
  OuterState state = real_state(seed);
  for (std::size_t i = 0; i < state.params.size(); ++i)
    state.params[i] = state.anchor[i] + times * (state.params[i] - state.anchor[i]);
  return state;
}

Bytes sent_times(const std::string& region, std::uint64_t seed, const std::string& spec,
                 float times = 1) {
  OuterState state = moving(seed, times);
  return encode(make_round(codec(spec), {}, region), state);
}

diloco::Digest state_after(const OuterRound& round, Collective& group,
                           const diloco::CommitRecord& record, const Payloads& payloads) {
  OuterState state = real_state(0);
  Views views;
  for (const auto& [region, bytes] : payloads) views.push_back(bytes);
  round.apply(group, record, views, state);
  EXPECT_EQ(state.digest, whole_digest(state));
  return state.digest;
}

// The state after a round of these, in a region of so many ranks.
diloco::Digest state_after(std::size_t world, const diloco::OuterOptions& outer,
                           const diloco::CommitRecord& record, const Payloads& payloads) {
  std::vector<diloco::Digest> ends(world);
  on_ranks(world, [&](Collective& group) {
    const OuterRound round({.region = "us", .rank = group.rank(), .world = world}, codec(kSparse),
                           outer, {}, layout());
    ends[group.rank()] = state_after(round, group, record, payloads);
  });
  for (const diloco::Digest& end : ends) EXPECT_EQ(end, ends[0]);
  return ends[0];
}

// As if the first one had contributed nothing.
diloco::Digest applied_without_first(const diloco::OuterOptions& outer, const Payloads& payloads) {
  diloco::CommitRecord record = record_of(real_state(0), payloads);
  record.participants.erase(record.participants.begin());
  return state_after(1, outer, record, {payloads.begin() + 1, payloads.end()});
}

class OutlyingPayload : public testing::TestWithParam<std::size_t> {
 protected:
  static diloco::Digest applied_by_ranks(const diloco::OuterOptions& outer,
                                         const Payloads& payloads) {
    return state_after(GetParam(), outer, record_of(real_state(0), payloads), payloads);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, OutlyingPayload, testing::Values(1, 2, 3));

TEST_P(OutlyingPayload, CountsAsZeroAndIsNamed) {
  for (const float times : {1e3F, 1e30F}) {
    for (const Mean mean : {Mean::all, Mean::senders}) {
      const Payloads payloads{{"ap", sent_times("ap", 1, kSparse, times)},
                              {"eu", sent_times("eu", 2, kSparse)},
                              {"us", sent_times("us", 3, kSparse)}};
      diloco::OuterOptions outer;
      outer.mean = mean;
      const test::CapturedLog log;
      EXPECT_EQ(applied_by_ranks(outer, payloads), applied_without_first(outer, payloads));
      EXPECT_EQ(log.count("what ap contributed to round 0 would move the model"), 1U);
      EXPECT_FALSE(log.has("what eu contributed"));
      EXPECT_FALSE(log.has("what us contributed"));
    }
  }
}

TEST(OutlyingPayloads, AreFoundWithEveryKindOfValues) {
  for (const char* spec : {kExact, "dense:int8", "dense:1bit", "dense:int4-asymmetric"}) {
    const Payloads payloads{{"ap", sent_times("ap", 1, spec, 1e30F)},
                            {"eu", sent_times("eu", 2, spec)},
                            {"us", sent_times("us", 3, spec)}};
    EXPECT_EQ(state_after(1, {}, record_of(real_state(0), payloads), payloads),
              applied_without_first({}, payloads))
        << spec;
  }
}

// The bound of one codec is near the size of another.
TEST(OutlyingPayloads, MayHaveACodecOfTheirOwn) {
  for (const char* spec : {kExact, kSparse, "dense:int8", "dense:2bit"}) {
    const Payloads honest{{"ap", sent_times("ap", 1, spec)},
                          {"eu", sent_times("eu", 2, kExact)},
                          {"us", sent_times("us", 3, "dense:int8")}};
    Payloads lying = honest;
    lying[0].second = sent_times("ap", 1, spec, 1e6F);
    EXPECT_NE(state_after(1, {}, record_of(real_state(0), honest), honest),
              applied_without_first({}, honest))
        << spec;
    EXPECT_EQ(state_after(1, {}, record_of(real_state(0), lying), lying),
              applied_without_first({}, lying))
        << spec;
  }
}

// It may be the part of a model that only one region's data needs.
TEST(OutlyingPayloads, OfAFragmentAreThoseOfFarMore) {
  const diloco::OverlapOptions two{.variant = diloco::OverlapOptions::Variant::streaming,
                                   .fragments = 2};
  const auto sent = [&](const std::string& region, std::uint64_t seed, float times) {
    OuterState state = moving(seed, times);
    return encode(OuterRound({.region = region}, codec(kExact), {}, two, layout()), state);
  };
  const auto counts = [&](float times) {
    const Payloads all{
        {"ap", sent("ap", 1, times)}, {"eu", sent("eu", 2, 1)}, {"us", sent("us", 3, 1)}};
    const OuterRound round({.region = "us"}, codec(kExact), {}, two, layout());
    const test::CapturedLog log;
    state_after(round, *make_collective({}), record_of(real_state(0), all), all);
    return !log.has("what ap contributed to round 0 would move the model");
  };
  EXPECT_TRUE(counts(1e3F));
  EXPECT_FALSE(counts(1e6F));
}

// One bit of a scale is enough. Nobody else would leave it out.
TEST_P(OutlyingPayload, ThatHasChangedSinceItCameIsThisHostsTrouble) {
  const Payloads sent{{"ap", sent_times("ap", 1, kSparse)},
                      {"eu", sent_times("eu", 2, kSparse)},
                      {"us", sent_times("us", 3, kSparse)}};
  const Bytes changed = sent_times("ap", 1, kSparse, 1e30F);
  on_ranks(GetParam(), [&](Collective& group) {
    const OuterRound round({.region = "us", .rank = group.rank(), .world = group.size()},
                           codec(kSparse), {}, {}, layout());
    OuterState state = real_state(0);
    const OuterState before = state;
    const diloco::CommitRecord record = record_of(state, sent);
    std::string told;
    try {
      round.apply(group, record, Views{changed, sent[1].second, sent[2].second}, state);
    } catch (const std::system_error& error) {
      told = error.what();
    }
    EXPECT_THAT(told, testing::HasSubstr("what ap contributed to round 0 has changed since"));
    EXPECT_EQ(state.anchor, before.anchor);
    EXPECT_TRUE(state.intact);
  });
}

// Nobody can say which of two it is.
TEST_P(OutlyingPayload, CountsAmongTwo) {
  const Payloads payloads{{"ap", sent_times("ap", 1, kExact, 1e3F)},
                          {"us", sent_times("us", 3, kExact)}};
  EXPECT_NE(applied_by_ranks({}, payloads), applied_without_first({}, payloads));
}

// Without the first one the second would be one, too: who found what first must not matter.
TEST_P(OutlyingPayload, IsSoughtOnce) {
  const Payloads payloads{{"ap", sent_times("ap", 1, kExact, 1e6F)},
                          {"eu", sent_times("eu", 2, kExact, 1e2F)},
                          {"sa", sent_times("sa", 4, kExact)},
                          {"us", sent_times("us", 3, kExact)}};
  const test::CapturedLog log;
  applied_by_ranks({}, payloads);
  EXPECT_TRUE(log.has("what ap contributed to round 0 would move the model"));
  EXPECT_FALSE(log.has("what eu contributed"));
  EXPECT_NE(applied_by_ranks({}, payloads), applied_without_first({}, payloads));
}

// What cannot be decoded makes no median.
TEST_P(OutlyingPayload, IsSoughtAmongWhatCanBeDecoded) {
  Payloads payloads{{"ap", sent_times("ap", 1, kExact, 1e3F)},
                    {"eu", sent_times("eu", 2, kExact)},
                    {"sa", sent_times("sa", 4, kExact)},
                    {"us", sent_times("us", 3, kExact)}};
  payloads[1].second = with_a_damaged_segment(payloads[1].second, 5);
  EXPECT_EQ(applied_by_ranks({}, payloads), applied_without_first({}, payloads));
  payloads[2].second = with_a_damaged_segment(payloads[2].second, 0);
  EXPECT_NE(applied_by_ranks({}, payloads), applied_without_first({}, payloads));
}

TEST(OutlyingStatistics, CountAsZeroWithTheirSteps) {
  const diloco::Layout with_averages({{"a", {64, 64}}, {"average:mean", {70}}, {"lowest:n", {3}}});
  const auto sent = [&](const std::string& region, float average, float lowest) {
    OuterState state(with_averages);
    state.work.steps = 4;
    state.params = state.anchor;
    for (std::size_t i = 0; i < 70; ++i)
      state.params[with_averages.find("average:mean").offset + i] = average;
    state.params[with_averages.find("lowest:n").offset] = lowest;
    state.params[0] = 0.01F;
    return encode(OuterRound({.region = region}, codec(kExact), averaging(), {}, with_averages),
                  state);
  };
  const auto end = [&](const Payloads& payloads, bool without_first) {
    OuterState state(with_averages);
    diloco::CommitRecord record = record_of(state, payloads);
    Views views;
    for (const auto& [region, bytes] : payloads) views.push_back(bytes);
    if (without_first) {
      record.participants.erase(record.participants.begin());
      views.erase(views.begin());
    }
    OuterRound({.region = "us"}, codec(kExact), averaging(), {}, with_averages)
        .apply(*make_collective({}), record, views, state);
    return state.anchor;
  };
  const Bytes eu = sent("eu", 1, 7), us = sent("us", 1, 7);
  const Payloads honest{{"ap", sent("ap", 2, 7)}, {"eu", eu}, {"us", us}};
  EXPECT_NE(end(honest, false), end(honest, true));
  const Payloads of_another_scale{{"ap", sent("ap", 255, 7)}, {"eu", eu}, {"us", us}};
  EXPECT_NE(end(of_another_scale, false), end(of_another_scale, true));
  const Payloads lying{{"ap", sent("ap", 1e30F, 7)}, {"eu", eu}, {"us", us}};
  EXPECT_EQ(end(lying, false), end(lying, true));
  // Of the lowest only one counts, however large the others are.
  const Payloads late{{"ap", sent("ap", 1, 1e30F)}, {"eu", eu}, {"us", us}};
  EXPECT_NE(end(late, false), end(late, true));
}

}  // namespace
}  // namespace causeway::intra
