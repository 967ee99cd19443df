#include "intra/outer/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "compression/codecs/payload_sum.h"
#include "diloco/files/error.h"
#include "tests/intra/outer/outer_round_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

using Mean = diloco::OuterOptions::Mean;

Bytes sent_by(const std::string& region, std::uint64_t seed, const std::string& spec = kSparse) {
  OuterState state = real_state(seed);
  return encode(make_round(codec(spec), {}, region), state);
}

Bytes cut_short(Bytes whole) {
  whole.pop_back();
  return whole;
}

Bytes with_a_number_that_is_not_finite() {
  const Bytes whole = sent_by("eu", 1, kExact);
  const std::vector<float> nan(layout().segments()[0].count,
                               std::numeric_limits<float>::quiet_NaN());
  return rewritten(
      whole, [&](auto&, auto& segments) { segments[0].bytes = std::as_bytes(std::span(nan)); });
}

Bytes of_another_model() {
  const diloco::Layout larger({{"a", {64, 64}}, {"b", {64, 64}}});
  OuterState foreign(larger);
  return encode(OuterRound({.region = "eu"}, codec(kSparse), {}, {}, larger), foreign);
}

Bytes of_an_unknown_codec() {
  return rewritten(sent_by("eu", 1), [](auto& specs, auto&) { specs[0] = "dense:int8,block=17"; });
}

struct End {
  diloco::Digest digest{};
  std::vector<float> anchor;
};

// Applies a record of round 0 to a region of so many ranks.
End applied(std::size_t world, const diloco::OuterOptions& outer,
            const diloco::CommitRecord& record, const Views& payloads) {
  std::vector<End> ends(world);
  on_ranks(world, [&](Collective& group) {
    const OuterRound round({.region = "us", .rank = group.rank(), .world = world}, codec(kSparse),
                           outer, {}, layout());
    OuterState state = real_state(0);
    round.apply(group, record, payloads, state);
    EXPECT_EQ(state.digest, whole_digest(state));
    ends[group.rank()] = {state.digest, state.anchor};
  });
  for (const End& end : ends) EXPECT_EQ(end.digest, ends[0].digest);
  return ends[0];
}

class Undecoded : public testing::TestWithParam<std::size_t> {
 protected:
  // A round that lists `bad` of eu is one in which eu contributed nothing, with the same weights.
  void expect_as_zero(const Bytes& bad) {
    const Bytes good = sent_by("us", 2);
    const diloco::CommitRecord both = record_of(real_state(0), {{"eu", bad}, {"us", good}});
    diloco::CommitRecord alone = both;
    alone.participants.erase(alone.participants.begin());
    for (const Mean mean : {Mean::all, Mean::senders}) {
      diloco::OuterOptions outer;
      outer.mean = mean;
      const test::CapturedLog log;
      const End end = applied(GetParam(), outer, both, {bad, good});
      EXPECT_GE(log.count("what eu contributed to round 0 cannot be decoded: "), 1U);
      EXPECT_FALSE(log.has("what us contributed"));
      EXPECT_EQ(end.anchor, applied(1, outer, alone, {good}).anchor);
      EXPECT_NE(end.anchor, real_state(0).anchor);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Undecoded, testing::Values(1, 2, 3));

TEST_P(Undecoded, APayloadThatIsCutShortCountsAsZero) {
  expect_as_zero(cut_short(sent_by("eu", 1)));
}

TEST_P(Undecoded, SoDoesOneWithOneDamagedSegment) {
  const Bytes whole = sent_by("eu", 1);
  for (std::size_t i = 0; i < layout().segments().size(); ++i)
    expect_as_zero(with_a_damaged_segment(whole, i));
}

TEST_P(Undecoded, SoDoesOneWithANumberThatIsNotFinite) {
  expect_as_zero(with_a_number_that_is_not_finite());
}

TEST_P(Undecoded, SoDoesOneOfAnotherModel) {
  expect_as_zero(of_another_model());
}

TEST_P(Undecoded, SoDoesOneOfAnUnknownCodec) {
  expect_as_zero(of_an_unknown_codec());
}

TEST_P(Undecoded, SoDoesNothingAtAll) {
  expect_as_zero(Bytes());
}

// Each rank meets another one first.
TEST_P(Undecoded, SeveralOfARoundAreLeftOutAlikeOnAllRanks) {
  const Bytes whole = sent_by("eu", 1), good = sent_by("us", 2);
  const Bytes ap = with_a_damaged_segment(whole, 5), eu = with_a_damaged_segment(whole, 0),
              sa = cut_short(whole);
  const diloco::CommitRecord all =
      record_of(real_state(0), {{"ap", ap}, {"eu", eu}, {"sa", sa}, {"us", good}});
  diloco::CommitRecord alone = all;
  alone.participants.erase(alone.participants.begin(), alone.participants.begin() + 3);
  EXPECT_EQ(applied(GetParam(), {}, all, {ap, eu, sa, good}).digest,
            applied(1, {}, alone, {good}).digest);
}

TEST_P(Undecoded, ARoundWithoutAnyOtherMovesNothing) {
  const Bytes bad = cut_short(sent_by("eu", 1));
  const auto record = record_of(real_state(0), {{"eu", bad}});
  EXPECT_EQ(applied(GetParam(), averaging(), record, {bad}).anchor, real_state(0).anchor);
}

// Then other regions decode it: whoever went on without it would have another state.
TEST_P(Undecoded, BytesThatAreNotThoseOfTheRecordAreThisHostsTrouble) {
  const Bytes whole = sent_by("eu", 1), changed = with_a_damaged_segment(whole, 0);
  on_ranks(GetParam(), [&](Collective& group) {
    const OuterRound round({.region = "us", .rank = group.rank(), .world = group.size()},
                           codec(kSparse), {}, {}, layout());
    OuterState state = real_state(0);
    const OuterState before = state;
    EXPECT_THROW(round.apply(group, record_of(state, {{"eu", whole}}), Views{changed}, state),
                 std::system_error);
    EXPECT_EQ(state.anchor, before.anchor);
    EXPECT_EQ(state.momentum, before.momentum);
    EXPECT_EQ(state.version, 0);
    EXPECT_TRUE(state.intact);
  });
}

TEST(Reduce, BytesThatChangedAreNamed) {
  const Bytes whole = sent_by("eu", 1), changed = cut_short(whole);
  OuterState state = real_state(0);
  EXPECT_THAT(
      [&] {
        make_round(codec(kSparse), {})
            .apply(*make_collective({}), record_of(state, {{"eu", whole}}), Views{changed}, state);
      },
      testing::ThrowsMessage<std::system_error>(
          testing::HasSubstr("what eu contributed to round 0 has changed since it came")));
}

// How far an eager region looks ahead follows from the others.
TEST(Reduce, AnEagerRegionLearnsItsShareFromTheRest) {
  const OuterRound eager({.region = "us"}, codec(kExact), averaging(),
                         {.variant = diloco::OverlapOptions::Variant::eager}, layout());
  const Bytes ap = sent_by("ap", 3, kExact), us = sent_by("us", 2, kExact),
              bad = cut_short(sent_by("eu", 1, kExact));
  OuterState with = real_state(0), without = real_state(0);
  const auto record = record_of(with, {{"ap", ap}, {"eu", bad}, {"us", us}});
  diloco::CommitRecord rest = record;
  rest.participants.erase(rest.participants.begin() + 1);
  eager.apply(*make_collective({}), record, Views{ap, bad, us}, with);
  eager.apply(*make_collective({}), rest, Views{ap, us}, without);
  EXPECT_EQ(with.confirmed_share, without.confirmed_share);
  EXPECT_NE(with.confirmed_share, 1);
}

// A run whose rounds were sharded goes on with another setting.
TEST(Reduce, AnEagerRegionTakesSumsAndKeepsItsShare) {
  const OuterRound eager({.region = "us"}, codec(kExact), averaging(),
                         {.variant = diloco::OverlapOptions::Variant::eager}, layout());
  const Bytes us = sent_by("us", 2, kExact);
  const std::vector<Bytes> sums = compression::cut_payload(us, 3);
  ASSERT_EQ(sums.size(), 3);
  OuterState state = real_state(0), plain = real_state(0);
  auto record = record_of(state, {{"eu", us}});
  for (const Bytes& sum : sums) record.sums.push_back({diloco::tree_hash(sum), sum.size()});
  const Views views(sums.begin(), sums.end());
  eager.apply(*make_collective({}), record, views, state);
  make_round(codec(kExact), averaging()).apply(*make_collective({}), record, views, plain);
  EXPECT_EQ(state.anchor, plain.anchor);
  EXPECT_EQ(state.confirmed_share, 1);
}

// Memory failed after it was encoded: nothing of it may stay where it was added up.
TEST(Reduce, AnOwnPayloadWithADamagedSegmentLeavesTheResidual) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState state = real_state(0);
  const Bytes bad = with_a_damaged_segment(encode(round, state), 3);
  state.in_flight.back().payload = OwnPayload(diloco::SealedBytes(bad));
  const std::vector<float> residual = state.residual;
  apply(round, state, {});
  EXPECT_EQ(state.residual, residual);
}

// An eager region that looks ahead does so without it.
TEST(Reduce, AnEagerRegionLooksAheadWithoutADamagedPayload) {
  const OuterRound eager({.region = "us"}, codec(kExact), averaging(),
                         {.variant = diloco::OverlapOptions::Variant::eager}, layout());
  OuterState with = real_state(0);
  const Bytes bad = with_a_damaged_segment(encode(eager, with), 3);
  with.in_flight.back().payload = OwnPayload(diloco::SealedBytes(bad));
  with.work.steps = 4;
  OuterState without = with;
  without.in_flight.back().payload = {};
  const Bytes next = encode(eager, with);
  EXPECT_EQ(encode(eager, without), next);
  EXPECT_EQ(with.params, without.params);
}

// Memory failed after it was encoded.
TEST(Reduce, AnOwnPayloadThatExpiresAndCannotBeDecodedIsLost) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState state = real_state(0);
  const Bytes bad = cut_short(encode(round, state));
  state.in_flight.back().payload = OwnPayload(diloco::SealedBytes(bad));
  const std::vector<float> residual = state.residual;
  const test::CapturedLog log;
  apply(round, state, {});
  EXPECT_TRUE(log.has("what this region contributed to round 0 cannot be decoded"));
  EXPECT_EQ(state.residual, residual);
  EXPECT_TRUE(state.in_flight.empty());
}

}  // namespace
}  // namespace causeway::intra
