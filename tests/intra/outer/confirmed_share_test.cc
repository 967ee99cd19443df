#include "intra/outer/confirmed_share.h"

#include <numeric>

#include "tests/intra/outer/outer_round_fixture.h"

namespace causeway::intra {
namespace {

// What a region sends that moved its parameters by `scale` times the dyadic numbers of `seed`.
Bytes moved(std::uint64_t seed, float scale = 1, const std::string& spec = kExact) {
  OuterState state(layout());
  fill_dyadic(state.params, seed);
  for (float& value : state.params) value *= scale;
  state.digest = whole_digest(state);
  state.work.steps = 4;
  return encode(make_round(codec(spec), averaging()), state);
}

std::optional<float> share_of(const std::string& region,
                              const std::vector<std::pair<std::string, Bytes>>& listed,
                              diloco::OuterOptions::Mean mean = {}) {
  diloco::CommitRecord record;
  Views payloads;
  for (const auto& [name, payload] : listed) {
    record.participants.push_back(
        {.region = name, .weight = 1.0F / static_cast<float>(listed.size())});
    payloads.emplace_back(payload);
  }
  std::vector<std::size_t> segments(layout().segments().size());
  std::iota(segments.begin(), segments.end(), std::size_t{0});
  return confirmed_share({record, payloads}, {}, region, layout(), segments, mean);
}

TEST(ConfirmedShare, IsAllWhereTheOthersLearnedTheSame) {
  EXPECT_EQ(share_of("us", {{"eu", moved(1)}, {"us", moved(1)}}), 1.0F);
}

TEST(ConfirmedShare, IsOneOfRWhereTheyHaveNothingInCommon) {
  const auto share =
      share_of("us", {{"ap", moved(1)}, {"eu", moved(2)}, {"sa", moved(3)}, {"us", moved(4)}});
  EXPECT_NEAR(share.value(), 0.25F, 0.02F);  // 24,000 random numbers are nearly orthogonal
}

TEST(ConfirmedShare, CountsTheOthersByTheirSize) {
  EXPECT_EQ(share_of("us", {{"eu", moved(1, 0.5F)}, {"us", moved(1)}}), 0.75F);
}

TEST(ConfirmedShare, StaysWithinZeroAndOne) {
  EXPECT_EQ(share_of("us", {{"eu", moved(1, -2)}, {"us", moved(1)}}), 0.0F);
  EXPECT_EQ(share_of("us", {{"eu", moved(1, 4)}, {"us", moved(1)}}), 1.0F);
}

TEST(ConfirmedShare, IsOfWhatWasSentNotOfWhatWasLearned) {
  EXPECT_EQ(share_of("us", {{"eu", moved(1, 1, kSparse)}, {"us", moved(1, 1, kSparse)}}), 1.0F);
}

TEST(ConfirmedShare, IsAllWhereNobodyElseSentAnElement) {
  const std::vector<std::pair<std::string, Bytes>> listed{{"eu", moved(2, 1, kSparse)},
                                                          {"us", moved(1, 1, kSparse)}};
  const float of_all = share_of("us", listed).value();
  EXPECT_LT(of_all, 0.6F);
  EXPECT_GT(share_of("us", listed, diloco::OuterOptions::Mean::senders).value(), 0.8F);
}

TEST(ConfirmedShare, SaysNothingOfARegionThatIsNotListedOrAloneOrDidNotMove) {
  EXPECT_EQ(share_of("us", {{"eu", moved(1)}}), std::nullopt);
  EXPECT_EQ(share_of("us", {{"us", moved(1)}}), std::nullopt) << "nobody confirmed it";
  EXPECT_EQ(share_of("us", {{"eu", moved(1)}, {"us", moved(1, 0)}}), std::nullopt);
}

TEST(ConfirmedShare, AddsUpThePartsOfARound) {
  EXPECT_EQ(share_of("us", {{"eu", moved(1)}, {"us", moved(1, 0.5F)}, {"us", moved(1, 0.5F)}}),
            2.0F / 3);
}

}  // namespace
}  // namespace causeway::intra
