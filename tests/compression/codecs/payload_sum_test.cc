#include "compression/codecs/payload_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "compression/codecs/make_codec.h"
#include "compression/codecs/payload.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using ShardBytes = std::vector<std::byte>;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string kExact = "dense:fp32";
const std::string kSummed = "dense:int8,block=128";

// One segment of a payload, before it is encoded.
struct Piece {
  std::uint32_t index = 0;
  Floats values;
  std::string spec;
};

ShardBytes write_pieces(const std::vector<Piece>& pieces) {
  std::vector<std::string> specs;
  std::vector<ShardBytes> encoded(pieces.size());
  std::vector<EncodedSegment> segments;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Floats& values = pieces[i].values;
    Floats decoded(values.size());
    make_codec(pieces[i].spec)->encode(values, decoded, encoded[i]);
    specs.push_back(pieces[i].spec);
    segments.push_back({pieces[i].index, static_cast<std::uint32_t>(values.size()),
                        static_cast<std::uint8_t>(i), encoded[i]});
  }
  return write_payload(specs, segments);
}

// Segments of so many chunks each, all of one codec.
ShardBytes one_region(const std::vector<std::size_t>& chunks, std::uint64_t seed,
                      const std::string& spec = kExact) {
  std::vector<Piece> pieces;
  for (std::uint32_t i = 0; i < chunks.size(); ++i)
    pieces.push_back({i, draw(gaussian_at, chunks[i] * kChunk, 100 * seed + i), spec});
  return write_pieces(pieces);
}

ShardBytes constant(float value, std::uint32_t index = 0) {
  return write_pieces({{index, Floats(kChunk, value), kExact}});
}

// Segment by segment, as a region would.
std::vector<Floats> weighted_sum(const std::vector<PayloadTerm>& terms) {
  std::vector<Floats> sums;
  for (const PayloadTerm& term : terms) {
    const Payload payload = read_payload(term.payload);
    sums.resize(payload.segments.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const EncodedSegment& segment = payload.segments[i];
      sums[i].resize(segment.element_count);
      make_codec(payload.codec_specs[segment.codec])
          ->decode_add(segment.bytes, term.weight, sums[i]);
    }
  }
  return sums;
}

std::vector<Floats> values_of(const ShardBytes& payload) {
  return weighted_sum({{payload, 1}});
}

std::vector<std::string> specs_of(const ShardBytes& bytes) {
  const Payload payload = read_payload(bytes);
  std::vector<std::string> specs;
  for (const EncodedSegment& segment : payload.segments)
    specs.push_back(payload.codec_specs[segment.codec]);
  return specs;
}

std::vector<std::uint32_t> indices_of(const ShardBytes& bytes) {
  std::vector<std::uint32_t> indices;
  for (const EncodedSegment& segment : read_payload(bytes).segments)
    indices.push_back(segment.index);
  return indices;
}

std::vector<std::vector<std::uint32_t>> cut_of(const ShardBytes& payload, std::size_t shards) {
  std::vector<std::vector<std::uint32_t>> cut;
  for (const ShardBytes& shard : cut_payload(payload, shards)) cut.push_back(indices_of(shard));
  return cut;
}

std::error_code refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

// ---- Cut ----

TEST(CutPayload, HasEverySegmentOnceInItsOrderAndItsBytes) {
  const ShardBytes whole = one_region({1, 2, 1, 3, 1, 1, 2}, 1);
  const Payload read = read_payload(whole);
  for (std::size_t shards = 1; shards <= 9; ++shards) {
    std::size_t next = 0;
    for (const ShardBytes& shard : cut_payload(whole, shards)) {
      for (const EncodedSegment& segment : read_payload(shard).segments) {
        ASSERT_LT(next, read.segments.size());
        EXPECT_EQ(segment.index, read.segments[next].index);
        EXPECT_TRUE(std::ranges::equal(segment.bytes, read.segments[next].bytes));
        ++next;
      }
    }
    EXPECT_EQ(next, read.segments.size()) << shards << " shards";
  }
}

TEST(CutPayload, SharesTheElementsEvenly) {
  EXPECT_THAT(cut_of(one_region({1, 1, 1, 1, 1, 1}, 1), 3),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  // Elements count, not segments.
  EXPECT_THAT(cut_of(one_region({4, 1, 1, 1, 1}, 1), 2),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3, 4)));
  EXPECT_THAT(cut_of(one_region({1, 1, 1, 1, 4}, 1), 2),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4)));
}

TEST(CutPayload, NoShardHasASegmentMoreThanItsPart) {
  const std::vector<std::size_t> chunks{3, 1, 2, 5, 1, 1, 4, 2, 2, 1, 3, 1, 1, 6, 2};
  const ShardBytes whole = one_region(chunks, 1);
  const std::size_t all = kChunk * std::accumulate(chunks.begin(), chunks.end(), std::size_t{0});
  for (std::size_t shards = 1; shards <= chunks.size(); ++shards) {
    const auto cut = cut_payload(whole, shards);
    ASSERT_EQ(cut.size(), shards);
    for (const ShardBytes& shard : cut) {
      std::size_t elements = 0;
      for (const EncodedSegment& segment : read_payload(shard).segments)
        elements += segment.element_count;
      EXPECT_GT(elements, 0U);
      EXPECT_LE(elements, all / shards + 6 * kChunk) << shards << " shards";
    }
  }
}

TEST(CutPayload, FollowsFromTheSegmentsElementsAlone) {
  const std::vector<std::size_t> chunks{2, 1, 1, 3, 1};
  for (std::size_t shards = 1; shards <= 5; ++shards) {
    const auto cut = cut_of(one_region(chunks, 1), shards);
    EXPECT_EQ(cut_of(one_region(chunks, 2, kSummed), shards), cut);
    EXPECT_EQ(
        cut_of(one_region(chunks, 3, "topk:k=64,chunk=4096,value=2bit,index=elias-fano"), shards),
        cut);
  }
}

TEST(CutPayload, HasNoMoreShardsThanSegments) {
  EXPECT_THAT(cut_of(one_region({1, 5, 1}, 1), 64),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(CutPayload, RefusesWhatIsNoPayload) {
  ShardBytes bytes = one_region({1, 1}, 1);
  bytes.pop_back();
  EXPECT_EQ(refusal([&] { cut_payload(bytes, 2); }), Errc::malformed);
  EXPECT_EQ(refusal([] { cut_payload({}, 2); }), Errc::malformed);
}

// ---- Sum ----

TEST(SumPayloads, OfFloatsIsTheWeightedSumToTheBit) {
  const ShardBytes a = one_region({1, 2}, 1), b = one_region({1, 2}, 2), c = one_region({1, 2}, 3);
  const std::vector<PayloadTerm> terms{{a, 0.3F}, {b, 0.5F}, {c, 0.2F}};
  const PayloadSum sum = sum_payloads(terms);
  EXPECT_EQ(values_of(sum.payload), weighted_sum(terms));
  EXPECT_THAT(sum.left_out, IsEmpty());
}

TEST(SumPayloads, OfCoarserNumbersIsTheWeightedSumWithinHalfAStepOfInt8) {
  const std::string coarse = "dense:int4,block=64";
  const ShardBytes a = one_region({1, 1}, 1, coarse), b = one_region({1, 1}, 2, kSummed);
  const std::vector<PayloadTerm> terms{{a, 0.25F}, {b, 0.75F}};
  const auto sum = values_of(sum_payloads(terms).payload);
  const auto exact = weighted_sum(terms);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    for (std::size_t begin = 0; begin < exact[i].size(); begin += 128) {
      float largest = 0;
      for (std::size_t j = begin; j < begin + 128; ++j)
        largest = std::max(largest, std::abs(exact[i][j]));
      for (std::size_t j = begin; j < begin + 128; ++j)
        ASSERT_NEAR(sum[i][j], exact[i][j], largest / 127 * 0.51F) << i << " " << j;
    }
  }
}

TEST(SumPayloads, KeepsFloatsAsTheyComeAndMakesInt8OfAllElse) {
  const Floats values = draw(gaussian_at, kChunk, 1);
  const ShardBytes bytes =
      write_pieces({{0, values, "topk:k=64,chunk=4096,value=2bit,index=elias-fano"},
                    {1, values, "dense:bf16"},
                    {2, values, "dense:int4,block=64"},
                    {3, values, "dense:fp16"},
                    {4, values, "dense:fp32"},
                    {5, values, "dense:int8,block=4096"}});
  const PayloadSum sum = sum_payloads({{{bytes, 1}}});
  EXPECT_THAT(specs_of(sum.payload),
              ElementsAre(kSummed, "dense:bf16", kSummed, "dense:fp16", kExact, kSummed));
  EXPECT_THAT(indices_of(sum.payload), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SumPayloads, EqualTermsGiveEqualBytes) {
  for (const std::string& spec : {kExact, kSummed, std::string("dense:int4,block=64")}) {
    const ShardBytes a = one_region({2, 1}, 1, spec), b = one_region({2, 1}, 2, spec);
    const ShardBytes copy_of_a = a, copy_of_b = b;
    EXPECT_EQ(sum_payloads({{{a, 0.3F}, {b, 0.7F}}}, {.lowest = 1}).payload,
              sum_payloads({{{copy_of_a, 0.3F}, {copy_of_b, 0.7F}}}, {.lowest = 1}).payload)
        << spec;
  }
}

// In fp32, 10^8 + 1 is 10^8.
TEST(SumPayloads, AddsInTheOrderOfTheTerms) {
  const ShardBytes large = constant(1e8F), negative = constant(-1e8F), small = constant(1);
  EXPECT_EQ(values_of(sum_payloads({{{large, 1}, {negative, 1}, {small, 1}}}).payload)[0][0], 1);
  EXPECT_EQ(values_of(sum_payloads({{{large, 1}, {small, 1}, {negative, 1}}}).payload)[0][0], 0);
}

// Shard by shard, by different regions, it is what one region makes of everything.
TEST(SumPayloads, OfShardsAreTheShardsOfTheSum) {
  for (const std::string& spec : {kExact, std::string("dense:int4,block=64")}) {
    const std::vector<std::size_t> chunks{2, 1, 1, 3, 1};
    const ShardBytes a = one_region(chunks, 1, spec), b = one_region(chunks, 2, spec);
    for (std::size_t shards = 1; shards <= 5; ++shards) {
      const auto whole =
          cut_payload(sum_payloads({{{a, 0.5F}, {b, 0.25F}}}, {.lowest = 3}).payload, shards);
      const auto cut_a = cut_payload(a, shards), cut_b = cut_payload(b, shards);
      for (std::size_t i = 0; i < shards; ++i)
        EXPECT_EQ(sum_payloads({{{cut_a[i], 0.5F}, {cut_b[i], 0.25F}}}, {.lowest = 3}).payload,
                  whole[i])
            << spec << ", shard " << i << " of " << shards;
    }
  }
}

TEST(SumPayloads, TakesTheLowestSegmentsOfTheFirstTermAsTheyAre) {
  const ShardBytes a = one_region({1, 1, 1}, 1), b = one_region({1, 1, 1}, 2);
  const std::vector<PayloadTerm> terms{{a, 0.25F}, {b, 0.75F}};
  const auto sum = values_of(sum_payloads(terms, {.lowest = 1}).payload);
  EXPECT_EQ(sum[0], weighted_sum(terms)[0]);
  EXPECT_EQ(sum[1], values_of(a)[1]);
  EXPECT_EQ(sum[2], values_of(a)[2]);
}

// ---- Terms that nobody can add up ----

// Every byte of its segment's encoding is there but the last.
ShardBytes cut_short() {
  const Floats values(kChunk, 1.0F);
  ShardBytes encoded;
  Floats decoded(kChunk);
  make_codec(kExact)->encode(values, decoded, encoded);
  encoded.pop_back();
  const std::vector<EncodedSegment> segments{{0, kChunk, 0, encoded}};
  return write_payload(std::vector<std::string>{kExact}, segments);
}

TEST(SumPayloads, LeavesOutATermThatIsDamaged) {
  const ShardBytes good = constant(2), other = constant(3), bad_inside = cut_short();
  ShardBytes bad_head = constant(4);
  bad_head[0] ^= std::byte{1};
  const PayloadSum sum =
      sum_payloads({{{bad_head, 1}, {good, 0.5F}, {bad_inside, 1}, {other, 1}, {{}, 1}}});
  EXPECT_THAT(sum.left_out, ElementsAre(0, 2, 4));
  EXPECT_EQ(values_of(sum.payload), std::vector<Floats>{Floats(kChunk, 4)});
}

TEST(SumPayloads, LeavesOutATermOfAnotherShapeThanMostHave) {
  const ShardBytes a = constant(1), b = constant(2), elsewhere = constant(4, 1);
  const ShardBytes longer = write_pieces({{0, Floats(2 * kChunk, 8), kExact}});
  const PayloadSum sum = sum_payloads({{{elsewhere, 1}, {a, 1}, {longer, 1}, {b, 1}}});
  EXPECT_THAT(sum.left_out, ElementsAre(0, 2));
  EXPECT_EQ(values_of(sum.payload), std::vector<Floats>{Floats(kChunk, 3)});
}

TEST(SumPayloads, OfTwoShapesAsFrequentTakesTheOneThatComesFirst) {
  const ShardBytes a = constant(1, 5), b = constant(2, 0);
  EXPECT_THAT(sum_payloads({{{a, 1}, {b, 1}}}).left_out, ElementsAre(1));
  EXPECT_THAT(sum_payloads({{{b, 1}, {a, 1}}}).left_out, ElementsAre(1));
}

TEST(SumPayloads, LeavesOutATermOfAnUnknownCodec) {
  const ShardBytes content(4);
  const std::vector<EncodedSegment> segments{{0, kChunk, 0, content}};
  const ShardBytes unknown = write_payload(std::vector<std::string>{"of:tomorrow"}, segments);
  const ShardBytes good = constant(2);
  const PayloadSum sum = sum_payloads({{{good, 1}, {unknown, 1}}});
  EXPECT_THAT(sum.left_out, ElementsAre(1));
  EXPECT_EQ(values_of(sum.payload), std::vector<Floats>{Floats(kChunk, 2)});
}

TEST(SumPayloads, OfASegmentThatIsNotFiniteCountsAsNothing) {
  const float huge = std::numeric_limits<float>::max();
  const ShardBytes a =
      write_pieces({{0, Floats(kChunk, huge), kExact}, {1, Floats(kChunk, 1), kExact}});
  const PayloadSum sum = sum_payloads({{{a, 1}, {a, 1}}});
  EXPECT_THAT(sum.left_out, IsEmpty());
  EXPECT_EQ(values_of(sum.payload), (std::vector<Floats>{Floats(kChunk, 0), Floats(kChunk, 2)}));
}

// ---- Terms that would move the model much farther than most ----

std::vector<std::size_t> outlying_places(const std::vector<Outlier>& outliers) {
  std::vector<std::size_t> places;
  for (const Outlier& one : outliers) places.push_back(one.place);
  return places;
}

TEST(SumPayloads, LeavesOutAnOutlier) {
  const ShardBytes a = constant(1), b = constant(2), huge = constant(1e30F);
  const PayloadSum sum = sum_payloads({{{a, 0.25F, "ap"}, {huge, 0.5F, "eu"}, {b, 0.25F, "us"}}});
  EXPECT_THAT(outlying_places(sum.outliers), ElementsAre(1));
  EXPECT_THAT(sum.left_out, IsEmpty());
  EXPECT_EQ(values_of(sum.payload), std::vector<Floats>{Floats(kChunk, 0.75F)});
}

TEST(SumPayloads, SeeksOutliersAmongWhatCanBeDecoded) {
  const ShardBytes a = constant(1), b = constant(2), bad = cut_short(), huge = constant(1e30F);
  const PayloadSum sum =
      sum_payloads({{{bad, 1, "ap"}, {a, 1, "eu"}, {huge, 1, "sa"}, {b, 1, "us"}}});
  EXPECT_THAT(sum.left_out, ElementsAre(0));
  EXPECT_THAT(outlying_places(sum.outliers), ElementsAre(2));
  EXPECT_THAT(sum_payloads({{{bad, 1, "ap"}, {a, 1, "eu"}, {huge, 1, "sa"}}}).outliers, IsEmpty());
}

// Averaged statistics are measured by themselves, and the lowest not at all.
TEST(SumPayloads, MeasuresStatisticsByThemselves) {
  const auto sent = [](float steps, float averaged, float lowest) {
    return write_pieces({{0, Floats(kChunk, steps), kExact},
                         {1, Floats(kChunk, averaged), kExact},
                         {2, Floats(kChunk, lowest), kExact}});
  };
  const ShardBytes a = sent(1e-6F, 1, 1), b = sent(1e-6F, 1, 1);
  const auto outliers_with = [&](const ShardBytes& other) {
    return outlying_places(
        sum_payloads({{{a, 1, "ap"}, {other, 1, "eu"}, {b, 1, "us"}}}, {.averaged = 1, .lowest = 2})
            .outliers);
  };
  EXPECT_THAT(outliers_with(sent(1e-2F, 1, 1)), ElementsAre(1));
  EXPECT_THAT(outliers_with(sent(1e-6F, 1e4F, 1)), ElementsAre(1));
  EXPECT_THAT(outliers_with(sent(1e-6F, 1, 1e4F)), IsEmpty());
  EXPECT_THAT(outliers_with(sent(1e-3F, 1e3F, 1)), IsEmpty());
}

TEST(SumPayloads, OfNothingThatCanBeDecodedHasNoSegments) {
  const ShardBytes bad = cut_short();
  for (const PayloadSum& sum : {sum_payloads({}), sum_payloads({{{bad, 1}, {{}, 1}}})})
    EXPECT_THAT(read_payload(sum.payload).segments, IsEmpty());
}

}  // namespace
}  // namespace causeway::compression
