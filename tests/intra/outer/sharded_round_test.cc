// Rounds whose record has the participants' sum, in shards, instead of their payloads.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/base/codec.h"
#include "compression/codecs/payload.h"
#include "compression/codecs/payload_sum.h"
#include "intra/outer/outer_round.h"
#include "tests/intra/outer/outer_round_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

constexpr std::size_t kShards = 3;
using Listed = std::vector<std::pair<std::string, Bytes>>;

// What regions of a sharded round make of these payloads: a sum for each shard.
std::vector<Bytes> sums_of(const Listed& listed, const diloco::CommitRecord& record) {
  std::vector<std::vector<Bytes>> cut;
  for (const auto& [region, payload] : listed)
    cut.push_back(compression::cut_payload(payload, kShards));
  std::vector<Bytes> sums;
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    std::vector<compression::PayloadTerm> terms;
    for (std::size_t i = 0; i < listed.size(); ++i)
      terms.push_back({cut[i][shard], record.participants[i].weight});
    sums.push_back(compression::sum_payloads(terms).payload);
  }
  return sums;
}

// The record of such a round: of its participants' payloads only the hash as they were made counts.
diloco::CommitRecord sharded_record_of(const OuterState& state, const Listed& listed,
                                       const std::vector<Bytes>& sums) {
  diloco::CommitRecord record = record_of(state, listed);
  for (diloco::Participant& one : record.participants) {
    one.whole = one.payload.hash;
    one.payload.hash = {};
  }
  for (const Bytes& sum : sums) record.sums.push_back({diloco::tree_hash(sum), sum.size()});
  return record;
}

std::vector<Outcome> apply_sums(const OuterRound& round, OuterState& state, const Listed& listed,
                                const std::vector<Bytes>& sums) {
  const Views views(sums.begin(), sums.end());
  return round.apply(*make_collective({}), sharded_record_of(state, listed, sums), views, state);
}

TEST(ShardedRound, ExactPayloadsGiveTheBitsOfAFullExchange) {
  const OuterRound round = make_round(codec(kExact), {});
  OuterState full = real_state(0), sharded = real_state(0), other = real_state(7);
  const Listed listed{{"ap", encode(make_round(codec(kExact), {}, "ap"), other)},
                      {"us", encode(round, full)}};
  ASSERT_EQ(encode(round, sharded), listed[1].second);
  const std::vector<Bytes> sums = sums_of(listed, record_of(sharded, listed));
  apply(round, full, listed);
  EXPECT_THAT(apply_sums(round, sharded, listed, sums), Are(ContributionFate::delivered));
  EXPECT_EQ(sharded.digest, full.digest);
  EXPECT_EQ(sharded.residual, full.residual);
  EXPECT_EQ(sharded.digest, whole_digest(sharded));
}

TEST(ShardedRound, SumsInEightBitsAreOffByAHalfOfAStepOfTheirScale) {
  const char* int8 = "dense:int8,block=128";
  const OuterRound round = make_round(codec(int8), averaging());
  OuterState full = real_state(0), sharded = real_state(0), other = real_state(7);
  const Listed listed{{"ap", encode(make_round(codec(int8), averaging(), "ap"), other)},
                      {"us", encode(round, full)}};
  encode(round, sharded);
  const std::vector<float> anchor = full.anchor;
  const std::vector<Bytes> sums = sums_of(listed, record_of(sharded, listed));
  apply(round, full, listed);
  apply_sums(round, sharded, listed, sums);
  float largest = 0, error = 0;
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    largest = std::max(largest, std::abs(full.anchor[i] - anchor[i]));
    error = std::max(error, std::abs(sharded.anchor[i] - full.anchor[i]));
  }
  EXPECT_GT(error, 0);
  EXPECT_LE(error, largest / 127 / 2 + 1e-7F);
}

TEST(ShardedRound, RegionsOfOneTwoAndThreeRanksEndWithTheSameBits) {
  OuterState other = real_state(7), maker = real_state(0);
  const char* int8 = "dense:int8,block=128";
  const Listed listed{{"ap", encode(make_round(codec(int8), {}, "ap"), other)},
                      {"us", encode(make_round(codec(int8), {}), maker)}};
  const std::vector<Bytes> sums = sums_of(listed, record_of(maker, listed));
  std::vector<diloco::Digest> digests;
  for (const std::size_t world : {1, 2, 3}) {
    std::vector<diloco::Digest> ended(world);
    on_ranks(world, [&](Collective& group) {
      const OuterRound round({.region = "us", .rank = group.rank(), .world = world}, codec(int8),
                             {}, {}, layout());
      OuterState state = real_state(0);
      round.encode(group, kBatch, state);
      round.apply(group, sharded_record_of(state, listed, sums), Views(sums.begin(), sums.end()),
                  state);
      ended[group.rank()] = state.digest;
      EXPECT_EQ(state.digest, whole_digest(state));
    });
    digests.insert(digests.end(), ended.begin(), ended.end());
  }
  EXPECT_THAT(digests, testing::Each(digests.front()));
}

TEST(ShardedRound, AnotherLifesContributionIsForgotten) {
  const OuterRound round = make_round(codec(kExact), {});
  OuterState state = real_state(0), before = real_state(3);
  encode(round, state);
  const Listed listed{{"us", encode(round, before)}};
  const auto outcomes = apply_sums(round, state, listed, sums_of(listed, record_of(state, listed)));
  EXPECT_EQ(forgotten(outcomes), 1);
}

TEST(ShardedRound, WhatNobodysPayloadHasIsZero) {
  const OuterRound round = make_round(codec(kExact), averaging());
  OuterState state = real_state(0);
  const Listed listed{{"us", encode(round, state)}};
  std::vector<Bytes> sums = sums_of(listed, record_of(state, listed));
  const Bytes lost = sums[1], nonsense(40);
  std::vector<std::uint32_t> indices;
  for (const auto& segment : compression::read_payload(lost).segments)
    indices.push_back(segment.index);
  ASSERT_FALSE(indices.empty());
  const std::vector<float> anchor = state.anchor;
  const compression::PayloadTerm term{nonsense, 1};
  sums[1] = compression::sum_payloads(std::span(&term, 1)).payload;
  apply_sums(round, state, listed, sums);
  for (std::uint32_t i = 0; i < layout().segments().size(); ++i) {
    const diloco::Segment& segment = layout().segments()[i];
    const auto begin = static_cast<std::ptrdiff_t>(segment.offset);
    const auto end = static_cast<std::ptrdiff_t>(segment.offset + segment.count);
    const bool moved =
        !std::equal(anchor.begin() + begin, anchor.begin() + end, state.anchor.begin() + begin);
    EXPECT_NE(moved, std::ranges::count(indices, i) > 0) << i;
  }
}

TEST(ShardedRound, SumsThatAreNotTheRoundsAreNamedAndCountAsZero) {
  const OuterRound round = make_round(codec(kExact), averaging());
  OuterState sent = real_state(0);
  const Listed listed{{"us", encode(round, sent)}};
  const std::vector<Bytes> right = sums_of(listed, record_of(sent, listed));
  const Bytes none = compression::write_payload({}, {});
  const auto moved = [&](const std::vector<Bytes>& sums) {
    OuterState state = sent;
    apply_sums(round, state, listed, sums);
    return state.anchor;
  };
  const auto as_zero = [&](const std::vector<Bytes>& sums, const std::string& what,
                           const std::vector<Bytes>& rest) {
    SCOPED_TRACE(what);
    const test::CapturedLog log;
    EXPECT_EQ(moved(sums), moved(rest));
    EXPECT_EQ(log.count(what + " in round 0 cannot be decoded"), 1U) << log.text();
  };
  as_zero({right[1], right[0], right[2]}, "the sum of shard 1", {right[1], none, right[2]});
  as_zero({right[0], right[1], right[2], right[2]}, "the sum of shard 3", right);
  as_zero({right[0], Bytes(40), right[2]}, "the sum of shard 1", {right[0], none, right[2]});
}

}  // namespace
}  // namespace causeway::intra
