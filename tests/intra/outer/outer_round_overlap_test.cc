// What a worker's parameters do when the exchange overlaps with training. (diloco/maths/outer.h)
#include "diloco/maths/outer.h"

#include "diloco/files/error.h"
#include "tests/intra/outer/outer_round_fixture.h"

namespace causeway::intra {
namespace {

using Variant = diloco::OverlapOptions::Variant;

OuterRound overlapping(const diloco::OverlapOptions& overlap) {
  return OuterRound({.region = "us"}, codec(kExact), averaging(), overlap, layout());
}

// A few more inner steps.
void train(OuterState& state, std::uint64_t seed) {
  std::vector<float> steps(layout().size());
  fill_dyadic(steps, seed);
  for (std::size_t i = 0; i < steps.size(); ++i) state.params[i] += steps[i];
  state.work.steps += 2;
}

// The part of a flat span that a fragment holds.
std::vector<float> part(const OuterRound& round, std::size_t fragment,
                        const std::vector<float>& flat) {
  std::vector<float> values;
  for (const std::size_t index : round.ownership().fragments().segments(fragment)) {
    const diloco::Segment& segment = layout().segments()[index];
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(segment.offset);
    values.insert(values.end(), begin, begin + static_cast<std::ptrdiff_t>(segment.count));
  }
  return values;
}

TEST(Streaming, MovesOneFragmentAndLeavesTheOthers) {
  const OuterRound round =
      overlapping({.variant = Variant::streaming, .fragments = 2, .mixing = 0});
  OuterState state = dyadic_state(1);
  const OuterState before = state;
  const Bytes payload = encode(round, state);
  apply(round, state, {{"us", payload}});

  EXPECT_EQ(part(round, 0, state.anchor), part(round, 0, before.params));  // one region, lr 1
  EXPECT_EQ(part(round, 1, state.anchor), part(round, 1, before.anchor));
  EXPECT_EQ(part(round, 1, state.params), part(round, 1, before.params));
  EXPECT_LT(payload.size(), encode(overlapping({}), *std::make_unique<OuterState>(before)).size());
}

TEST(Streaming, EveryFragmentHasItsTurn) {
  const OuterRound round =
      overlapping({.variant = Variant::streaming, .fragments = 3, .mixing = 0});
  OuterState state = dyadic_state(1);
  const std::vector<float> trained = state.params;
  for (int turn = 0; turn < 3; ++turn) apply(round, state, {{"us", encode(round, state)}});
  EXPECT_EQ(state.anchor, trained);
}

TEST(Streaming, MixesContributedAndSharedParametersAndKeepsTheStepsSince) {
  const OuterRound round = overlapping({.variant = Variant::streaming, .mixing = 0.5F});
  OuterState state = dyadic_state(1), other = dyadic_state(2);
  const std::vector<float> contributed = state.params;
  const Bytes own = encode(round, state), others = encode(round, other);
  train(state, 7);
  const std::vector<float> trained = state.params;
  apply(round, state, {{"eu", others}, {"us", own}});
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const float since = trained[i] - contributed[i];
    ASSERT_EQ(state.params[i], 0.5F * contributed[i] + 0.5F * state.anchor[i] + since);
  }
  EXPECT_EQ(state.work.steps, 2U);  // of the next round
}

// One region's contribution is what the anchor becomes.
TEST(Streaming, OfOneRegionIsTrainingWithoutInterruption) {
  const OuterRound round = overlapping({.variant = Variant::streaming, .mixing = 0});
  OuterState state = dyadic_state(1);
  const Bytes own = encode(round, state);
  train(state, 7);
  const std::vector<float> trained = state.params;
  apply(round, state, {{"us", own}});
  EXPECT_EQ(state.params, trained);
}

TEST(Delayed, StartsFromTheNewestAnchorAndCountsNothingTwice) {
  const OuterRound round = overlapping({.variant = Variant::delayed});
  OuterState state = dyadic_state(1);
  const std::vector<float> anchor = state.anchor, trained = state.params;
  const Bytes first = encode(round, state);
  EXPECT_EQ(state.params, anchor);
  train(state, 7);
  std::vector<float> steps = state.params;
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] -= anchor[i];
  apply(round, state, {{"us", first}});
  EXPECT_EQ(state.anchor, trained);

  const Bytes second = encode(round, state);
  EXPECT_EQ(state.params, trained);
  apply(round, state, {{"us", second}});
  for (std::size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(state.anchor[i], trained[i] + steps[i]);
}

// One region knows in advance what the record will say: nothing interrupts it.
TEST(Eager, OfOneRegionIsTrainingWithoutInterruption) {
  const OuterRound round = overlapping({.variant = Variant::eager});
  OuterState state = dyadic_state(1);
  std::vector<float> uninterrupted = state.params;
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const Bytes payload = encode(round, state);
    ASSERT_EQ(state.params, uninterrupted) << turn;
    train(state, turn);
    uninterrupted = state.params;
    apply(round, state, {{"us", payload}});
  }
}

TEST(Eager, LooksAheadAtFirstAsIfTheOthersContributedTheSame) {
  const OuterRound round = overlapping({.variant = Variant::eager});
  OuterState state = dyadic_state(1);
  const OuterState before = state;
  encode(round, state);
  for (std::size_t i = 0; i < before.params.size(); ++i) {
    const float delta = before.anchor[i] - before.params[i];
    ASSERT_EQ(state.params[i], before.anchor[i] - delta);
  }
}

// The other region learned nothing: the record moves half as far as this one went.
TEST(Eager, LooksAheadByWhatTheRecordConfirmed) {
  const OuterRound round = overlapping({.variant = Variant::eager});
  OuterState us = dyadic_state(1), eu = us;
  eu.params = eu.anchor;
  const Bytes mine = encode(round, us);
  const Bytes other = encode(overlapping({}), eu);
  train(us, 5);
  apply(round, us, {{"eu", other}, {"us", mine}});
  EXPECT_EQ(us.confirmed_share, 0.5F);
  const OuterState before = us;
  encode(round, us);
  for (std::size_t i = 0; i < us.params.size(); ++i) {
    const float delta = before.mark[i] - before.params[i];
    ASSERT_EQ(us.params[i], before.anchor[i] - 0.5F * delta);
  }
}

TEST(Overlap, WorkOfAnEarlierLifeIsNotCountedAgain) {
  const OuterRound round = overlapping({.variant = Variant::streaming, .mixing = 1});
  OuterState state = dyadic_state(1), lost = dyadic_state(1);
  const Bytes payload = encode(round, lost);
  const auto outcomes = apply(round, state, {{"us", payload}});
  EXPECT_EQ(forgotten(outcomes), 1U);
  EXPECT_EQ(state.params, state.anchor);
  EXPECT_EQ(state.work.steps, 0U);
}

TEST(Overlap, APayloadOfAnotherFragmentCountsAsZero) {
  const OuterRound two = overlapping({.variant = Variant::streaming, .fragments = 2});
  OuterState state = dyadic_state(1), whole = dyadic_state(1);
  const Bytes payload = encode(overlapping({}), whole);
  const std::vector<float> anchor = state.anchor;
  apply(two, state, {{"us", payload}});
  EXPECT_EQ(state.anchor, anchor);
}

TEST(Overlap, RegionsOfOneTwoAndThreeRanksAgree) {
  const diloco::OverlapOptions overlap{.variant = Variant::streaming, .fragments = 2};
  std::vector<diloco::Digest> ends;
  for (const std::size_t world : {1U, 2U, 3U}) {
    diloco::Digest end{};
    on_ranks(world, [&](Collective& group) {
      const OuterRound round({.region = "us", .rank = group.rank(), .world = world}, codec(kSparse),
                             averaging(), overlap, layout());
      OuterState state = real_state(1);
      for (int turn = 0; turn < 4; ++turn) {
        round.encode(group, kBatch, state);
        const Bytes payload = bytes_of(state.in_flight.back());
        const Views views{payload};
        round.apply(group, record_of(state, {{"us", payload}}), views, state);
      }
      if (group.rank() == 0) end = state.digest;
    });
    ends.push_back(end);
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0], ends[2]);
}

}  // namespace
}  // namespace causeway::intra
