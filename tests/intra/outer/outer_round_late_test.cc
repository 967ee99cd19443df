// What a region's work becomes when it is late, beyond its K steps, or not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "intra/outer/outer_round.h"
#include "tests/intra/outer/outer_round_fixture.h"

namespace causeway::intra {
namespace {

// ---- Late contributions, and steps beyond what was contributed ----

// What the record of state's round lists: each with its round, part and payload, at weight 1.
struct Entry {
  std::string region;
  diloco::Round round;
  std::uint32_t part;
  Bytes payload;
};

std::vector<Outcome> apply_late(Collective& group, const OuterRound& round, OuterState& state,
                                const std::vector<Entry>& entries, diloco::Round expired_before) {
  diloco::CommitRecord record = record_of(state, {});
  record.expired_before = expired_before;
  Views views;
  for (const Entry& entry : entries) {
    record.participants.push_back({entry.region,
                                   entry.round,
                                   entry.part,
                                   1.0F,
                                   0,
                                   0,
                                   0,
                                   {diloco::tree_hash(entry.payload), entry.payload.size()}});
    views.push_back(entry.payload);
  }
  return round.apply(group, record, views, state);
}

void move_params(OuterState& state, std::uint64_t seed) {
  std::vector<float> step(layout().size());
  fill_dyadic(step, seed);
  for (std::size_t i = 0; i < step.size(); ++i) state.params[i] += step[i];
  state.work.steps += 4;
}

TEST(OuterRound, WhatIsNotListedStaysInFlightAndIsDeliveredLate) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  const auto alone = make_collective({});
  OuterState state = dyadic_state(0), other = dyadic_state(1);
  const Bytes from_other = encode(make_round(codec(kSparse), averaging(), "eu"), other);
  const Bytes first = encode(round, state);
  const std::vector<float> residual = state.residual;
  EXPECT_THAT(apply_late(*alone, round, state, {{"eu", 0, 0, from_other}}, 0), testing::IsEmpty());
  EXPECT_EQ(state.params, state.anchor) << "the parameters follow all the same";
  EXPECT_EQ(state.residual, residual);
  EXPECT_EQ(state.in_flight.size(), 1);
  move_params(state, 50);
  const Bytes second = encode(round, state);
  const auto outcomes =
      apply_late(*alone, round, state, {{"us", 0, 0, first}, {"us", 1, 0, second}}, 0);
  EXPECT_THAT(outcomes, testing::ElementsAre(Outcome{ContributionFate::delivered, 0, 0, 4},
                                             Outcome{ContributionFate::delivered, 1, 0, 4}));
  EXPECT_TRUE(state.in_flight.empty());
}

TEST(OuterRound, StepsBeyondTheContributionAreAnotherPartOfTheRound) {
  const OuterRound round = make_round(codec(kExact), averaging());
  const auto alone = make_collective({});
  OuterState state = dyadic_state(0);
  encode(round, state);
  state.mark = state.params;
  move_params(state, 51);
  const std::vector<float> reached = state.params;
  encode(round, state);
  EXPECT_TRUE(state.mark.empty());
  EXPECT_EQ(state.step_in_round(), 8);
  ASSERT_EQ(state.in_flight.size(), 2);
  EXPECT_EQ(state.in_flight[1].contribution.part, 1);
  EXPECT_EQ(state.in_flight[1].contribution.steps, 4);
  EXPECT_EQ(state.in_flight[1].contribution.data_cursor, 8 * kBatch.samples);
  const std::vector<Entry> both{{"us", 0, 0, bytes_of(state.in_flight[0])},
                                {"us", 0, 1, bytes_of(state.in_flight[1])}};
  apply_late(*alone, round, state, both, 0);
  EXPECT_EQ(state.anchor, reached) << "both parts are displacements, one after the other";
}

TEST(OuterRound, APartThatWasLostIsMadeAnewInItsPlace) {
  const OuterRound round = make_round(codec(kExact), averaging());
  OuterState state = dyadic_state(0);
  encode(round, state);
  move_params(state, 51);
  encode(round, state);
  state.drop_own(0);
  EXPECT_TRUE(state.contributed());
  move_params(state, 52);
  encode(round, state);
  ASSERT_EQ(state.in_flight.size(), 2);
  EXPECT_EQ(state.in_flight[0].contribution.part, 0);
  EXPECT_EQ(state.in_flight[1].contribution.part, 1);
  EXPECT_EQ(state.next_part(), 2);
}

TEST(OuterRound, StepsThatWereNotCollectedAreDropped) {
  const OuterRound round = make_round(codec(kExact), averaging());
  const auto alone = make_collective({});
  OuterState state = dyadic_state(0);
  const Bytes sent = encode(round, state);
  state.mark = state.params;
  move_params(state, 51);
  EXPECT_THAT(apply_late(*alone, round, state, {{"us", 0, 0, sent}}, 0),
              testing::ElementsAre(Outcome{ContributionFate::delivered, 0, 0, 4},
                                   Outcome{ContributionFate::dropped, 0, 1, 4}));
  EXPECT_TRUE(state.mark.empty());
  EXPECT_EQ(state.step_in_round(), 0);
}

TEST(OuterRound, WithoutMomentumTheMeanIsTakenAsItIs) {
  const OuterRound round = make_round(codec(kExact), {}),
                   plain = make_round(codec(kExact), {diloco::OuterOptions::Kind::sgd,
                                                      diloco::OuterOptions().lr, 0.0F});
  const auto alone = make_collective({});
  OuterState state = real_state(0), expected = real_state(0);
  fill_real(state.momentum, 9, 1e-3F);
  state.digest = whole_digest(state);
  const std::vector<float> momentum = state.momentum;
  const Bytes sent = encode(round, state);
  diloco::CommitRecord record = record_of(state, {{"us", sent}});
  record.skip_momentum = true;
  round.apply(*alone, record, Views{sent}, state);
  apply(plain, expected, {{"us", sent}});
  EXPECT_EQ(state.anchor, expected.anchor);
  EXPECT_EQ(state.momentum, momentum);
}

// Late payloads and parts on any number of ranks.
std::vector<Ended> late_rounds(std::size_t world) {
  std::vector<Ended> ended(world);
  OuterState other = real_state(7);
  const Bytes from_other = encode(make_round(codec(kSparse), {}, "ap"), other);
  on_ranks(world, [&](Collective& group) {
    const OuterRound round({.region = "us", .rank = group.rank(), .world = world}, codec(kSparse),
                           {}, {}, layout());
    OuterState state = real_state(0);
    Ended& end = ended[group.rank()];
    round.encode(group, kBatch, state);
    const Bytes first = bytes_of(state.in_flight.back());
    state.mark = state.params;
    move_params(state, 60);
    round.encode(group, kBatch, state);
    apply_late(group, round, state, {{"ap", 0, 0, from_other}}, 0);
    move_params(state, 61);
    round.encode(group, kBatch, state);
    end.payload = bytes_of(state.in_flight.back());
    // The first is delivered late, its second part expires.
    apply_late(group, round, state, {{"us", 0, 0, first}, {"us", 1, 0, end.payload}}, 1);
    EXPECT_TRUE(state.in_flight.empty());
    HostSpans spans(layout(), state);
    spans.complete(group, round.ownership().by_rank(), Flat::momentum);
    spans.complete(group, round.ownership().by_rank(), Flat::residual);
    end.anchor = state.anchor;
    end.momentum = state.momentum;
    end.residual = state.residual;
    end.digest = state.digest;
  });
  return ended;
}

TEST(OuterRound, LatePayloadsLeaveTheSameBitsOnOneTwoAndThreeRanks) {
  const Ended alone = late_rounds(1)[0];
  for (const std::size_t world : {2, 3}) {
    for (const Ended& rank : late_rounds(world)) EXPECT_TRUE(rank == alone) << world << " ranks";
  }
}

// ---- Numbers that are not finite ----

TEST(OuterRound, ADeltaThatIsNotFiniteSitsOutOnEveryRankAndNamesTheTensor) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    on_ranks(3, [&](Collective& group) {
      const OuterRound round({.region = "us", .rank = group.rank(), .world = 3}, codec(kSparse), {},
                             {}, layout());
      OuterState state = real_state(0);
      state.params[layout().find("e").offset + 5] = bad;
      state.params[layout().find("b").offset + 4097] = bad;
      const std::vector<float> residual = state.residual;
      EXPECT_EQ(round.encode(group, kBatch, state).not_finite, "b");
      EXPECT_EQ(state.residual, residual);
      EXPECT_EQ(state.params, state.anchor);
      ASSERT_EQ(state.in_flight.size(), 1);
      EXPECT_TRUE(state.in_flight[0].contribution.sits_out);
      EXPECT_TRUE(state.in_flight[0].payload.empty());
      EXPECT_EQ(state.in_flight[0].contribution.data_cursor, 4 * kBatch.samples);
    });
  }
}

TEST(OuterRound, SittingOutHasNoOutcomeOfItsOwn) {
  const OuterRound round = make_round(codec(kSparse), averaging());
  const auto alone = make_collective({});
  OuterState state = real_state(0), other = real_state(1);
  const Bytes from_other = encode(make_round(codec(kSparse), averaging(), "eu"), other);
  state.params[0] = NAN;
  round.encode(*alone, kBatch, state);
  EXPECT_THAT(apply(round, state, {{"eu", from_other}}), testing::IsEmpty());
  EXPECT_TRUE(state.in_flight.empty());
}

}  // namespace
}  // namespace causeway::intra
