#include "intra/outer/outer_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "diloco/files/error.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/outer/outer_round_fixture.h"

namespace causeway::intra {
namespace {

// ---- Without momentum and with outer rate 1 ----

TEST(OuterRound, OneRegionWithoutMomentumEndsWhereItsStepsLed) {
  for (const auto kind : {diloco::OuterOptions::Kind::sgd, diloco::OuterOptions::Kind::nesterov}) {
    const OuterRound round = make_round(codec(kExact), {kind, 1.0F, 0.0F});
    OuterState state = dyadic_state(0);
    const std::vector<float> local = state.params;
    ASSERT_NE(local, state.anchor);
    const Bytes payload = encode(round, state);
    EXPECT_THAT(apply(round, state, {{"us", payload}}), Are(ContributionFate::delivered));
    EXPECT_EQ(state.anchor, local);
    EXPECT_EQ(state.params, local);
    EXPECT_EQ(state.version, 1);
    EXPECT_EQ(state.digest, whole_digest(state));
  }
}

TEST(OuterRound, TwoRegionsWithoutMomentumMeetInTheMiddle) {
  const OuterRound eu = make_round(codec(kExact), averaging(), "eu");
  const OuterRound us = make_round(codec(kExact), averaging(), "us");
  OuterState eu_state = dyadic_state(0), us_state = dyadic_state(1);
  std::vector<float> mean(layout().size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = (eu_state.params[i] + us_state.params[i]) / 2;
  }
  const Bytes from_eu = encode(eu, eu_state), from_us = encode(us, us_state);
  for (auto* state : {&eu_state, &us_state}) {
    apply(state == &eu_state ? eu : us, *state, {{"eu", from_eu}, {"us", from_us}});
    EXPECT_EQ(state->anchor, mean);
  }
}

TEST(OuterRound, OnRealWeightsOneRegionIsOffByAtMostTwoUnitsInTheLastPlace) {
  const OuterRound round = make_round(codec(kExact), averaging());
  OuterState state = real_state(0);
  std::fill(state.residual.begin(), state.residual.end(), 0.0F);
  const std::vector<float> anchor = state.anchor, local = state.params;
  const Bytes payload = encode(round, state);
  apply(round, state, {{"us", payload}});
  for (std::size_t i = 0; i < local.size(); ++i) {
    const float largest = std::max(std::abs(anchor[i]), std::abs(local[i]));
    const float ulp = std::nextafter(largest, INFINITY) - largest;
    ASSERT_LE(std::abs(state.anchor[i] - local[i]), 2 * ulp) << i;
  }
}

// ---- The same bits for any number of ranks ----

// Two rounds of a region of `world` ranks together with another region; every rank's view of the
// end.
std::vector<Ended> two_rounds(std::size_t world, const std::string& spec) {
  std::vector<Ended> ended(world);
  OuterState other = real_state(7);
  const OuterRound other_round = make_round(codec(spec), {}, "ap");
  const Bytes from_other = encode(other_round, other);
  on_ranks(world, [&](Collective& group) {
    const OuterRound round({.region = "us", .rank = group.rank(), .world = world}, codec(spec), {},
                           {}, layout());
    OuterState state = real_state(0);
    Ended& end = ended[group.rank()];
    for (std::uint64_t i = 0; i < 2; ++i) {
      round.encode(group, kBatch, state);
      const diloco::Contribution& made = state.in_flight.back().contribution;
      end.payload = bytes_of(state.in_flight.back());
      end.delta_norm = made.delta_norm;
      end.error_norm = made.error_norm;
      round.apply(group, record_of(state, {{"ap", from_other}, {"us", end.payload}}),
                  Views{from_other, end.payload}, state);
      std::vector<float> step(layout().size());
      fill_real(step, 300 + i, 1e-3F);
      for (std::size_t e = 0; e < step.size(); ++e) state.params[e] += step[e];
    }
    end.anchor = state.anchor;
    end.momentum = state.momentum;
    end.residual = state.residual;
    end.digest = state.digest;
    EXPECT_EQ(state.digest, whole_digest(state));
  });
  return ended;
}

TEST(OuterRound, RegionsOfOneTwoAndThreeRanksSendAndEndWithTheSameBits) {
  for (const char* spec : {"dense:int8,block=128", kSparse}) {
    const Ended alone = two_rounds(1, spec)[0];
    EXPECT_GT(alone.delta_norm, 0);
    EXPECT_GT(alone.error_norm, 0);
    for (const std::size_t world : {2, 3}) {
      for (const Ended& rank : two_rounds(world, spec)) {
        EXPECT_TRUE(rank == alone) << spec << ", " << world << " ranks";
      }
    }
  }
}

TEST(OuterRound, PaddingStaysZero) {
  const OuterRound round = make_round(codec("dense:int8,block=128"), {});
  OuterState state = real_state(0);
  const Bytes payload = encode(round, state);
  apply(round, state, {{"us", payload}});
  std::vector<bool> used(layout().size());
  for (const diloco::PlacedTensor& tensor : layout().tensors()) {
    for (std::size_t i = 0; i < tensor.spec.count(); ++i) used[tensor.offset + i] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    ASSERT_TRUE(used[i] || state.anchor[i] == 0.0F) << i;
  }
}

// ---- What becomes of a region's work (the outcome table) ----

TEST(OuterRound, AnUnlistedContributionGoesBackIntoTheResidual) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState state = real_state(0), other = real_state(1);
  std::vector<float> wanted(layout().size());  // p = beta * residual + delta
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = 0.95F * state.residual[i] + (state.anchor[i] - state.params[i]);
  }
  encode(round, state);
  const std::vector<float> kept = state.residual;
  const Bytes from_other = encode(make_round(codec(kSparse), averaging(), "eu"), other);
  EXPECT_THAT(apply(round, state, {{"eu", from_other}}), Are(ContributionFate::returned));
  EXPECT_NE(state.residual, kept);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(state.residual[i], wanted[i], 1e-9F + 1e-6F * std::abs(wanted[i])) << i;
  }
  EXPECT_TRUE(state.in_flight.empty());
  EXPECT_EQ(state.params, state.anchor);
}

TEST(OuterRound, AListedContributionLeavesTheResidualAlone) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState state = real_state(0);
  const Bytes payload = encode(round, state);
  const std::vector<float> kept = state.residual;
  EXPECT_THAT(apply(round, state, {{"us", payload}}), Are(ContributionFate::delivered));
  EXPECT_EQ(state.residual, kept);
}

// A state that keeps no residual is that of a region which never had anything left over.
TEST(OuterRound, WithoutFeedbackNeedsNoResidual) {
  for (const std::string spec : {"dense:int8,block=128", "topk:k=64,chunk=4096"}) {
    CodecOptions options = codec(spec, false);
    options.force = true;
    const OuterRound round = make_round(options, averaging());
    OuterState with = real_state(0), without = with;
    std::ranges::fill(with.residual, 0.0F);
    without.residual = {};
    const Bytes payload = encode(round, without);
    EXPECT_EQ(payload, encode(round, with));
    EXPECT_EQ(without.own(0)->contribution.error_norm, with.own(0)->contribution.error_norm);
    apply(round, with, {{"us", payload}});
    apply(round, without, {{"us", payload}});
    EXPECT_EQ(without.digest, with.digest);
    EXPECT_EQ(without.params, with.params);
    EXPECT_TRUE(without.residual.empty());
  }
}

TEST(OuterRound, WithoutFeedbackAContributionOfAnEarlierLifeIsForgottenWithoutAResidual) {
  const OuterRound round = make_round(codec("dense:int8,block=128", false), averaging());
  OuterState earlier = real_state(0), state = real_state(0);
  state.residual = {};
  const Bytes payload = encode(round, earlier);
  EXPECT_EQ(forgotten(apply(round, state, {{"us", payload}})), 1U);
  EXPECT_TRUE(state.residual.empty());
}

TEST(OuterRound, WithoutFeedbackAnUnlistedContributionIsDropped) {
  const OuterRound round = make_round(codec("dense:int8,block=128", false), averaging());
  OuterState state = real_state(0), other = real_state(1);
  encode(round, state);
  const Bytes from_other = encode(make_round(codec(kExact), averaging(), "eu"), other);
  EXPECT_THAT(apply(round, state, {{"eu", from_other}}), Are(ContributionFate::dropped));
}

TEST(OuterRound, WithoutFeedbackThePayloadDoesNotDependOnTheResidual) {
  const OuterRound round = make_round(codec("dense:int8,block=128", false), averaging());
  OuterState state = real_state(0), clean = real_state(0);
  std::fill(clean.residual.begin(), clean.residual.end(), 0.0F);
  EXPECT_EQ(encode(round, state), encode(round, clean));
}

TEST(OuterRound, AContributionFromBeforeARestartEmptiesTheResidual) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState earlier = real_state(0), state = real_state(0);
  const Bytes sent = encode(round, earlier);
  EXPECT_THAT(forgotten(apply(round, state, {{"us", sent}})), 1);
  EXPECT_THAT(state.residual, testing::Each(0.0F));
}

TEST(OuterRound, AnotherContributionThanTheListedOneEmptiesTheResidual) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState earlier = real_state(3), state = real_state(0);
  const Bytes sent = encode(round, earlier);
  encode(round, state);
  EXPECT_THAT(forgotten(apply(round, state, {{"us", sent}})), 1);
  EXPECT_THAT(state.residual, testing::Each(0.0F));
}

TEST(OuterRound, StepsThatWereCutShortAreDroppedAndTheResidualStays) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  OuterState state = real_state(0), other = real_state(1);
  const std::vector<float> kept = state.residual;
  const Bytes from_other = encode(make_round(codec(kSparse), averaging(), "eu"), other);
  EXPECT_THAT(apply(round, state, {{"eu", from_other}}), Are(ContributionFate::dropped));
  EXPECT_EQ(state.residual, kept);
  EXPECT_EQ(state.step_in_round(), 0);
  EXPECT_THAT(apply(round, state, {{"eu", from_other}}), testing::IsEmpty());
}

// ---- What is refused ----

TEST(OuterRound, ARecordForAnotherStateIsADivergence) {
  const OuterRound round = make_round(codec(kExact), {});
  const auto alone = make_collective({});
  OuterState state = real_state(0);
  diloco::CommitRecord record = record_of(state, {});
  record.state[0] ^= 1;
  try {
    round.apply(*alone, record, {}, state);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), diloco::Errc::divergence);
  }
}

TEST(OuterRound, ASparseCodecWithoutFeedbackIsRefused) {
  expect_refusal(Errc::bad_model, {"codec.matrix", "codec.feedback = true"},
                 [] { make_round(codec(kSparse, false), {}); });
}

}  // namespace
}  // namespace causeway::intra
