// Which weights a follower takes: those that enough regions have signed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/follow/weights_votes.h"
#include "diloco/files/file_io.h"
#include "inter/base/error.h"
#include "inter/tls/signature.h"
#include "tests/support/test_pki.h"

namespace causeway::run {
namespace {

using diloco::SignedWeights;

class WeightsVotesTest : public ::testing::Test {
 protected:
  static SignedWeights weights(diloco::Round version, std::uint8_t content = 0) {
    return {.version = version,
            .state = {static_cast<std::uint8_t>(version), content},
            .image = {.hash = {static_cast<std::uint8_t>(version), content}, .size_bytes = 100},
            .signature = {}};
  }
  diloco::FollowerAnswer answer(const std::string& region, std::vector<SignedWeights> said) {
    diloco::FollowerAnswer answer{.run_id = "run-1"};
    const inter::SigningKey key(pki_.credentials(region).key);
    for (SignedWeights& one : said) one.signature = key.sign(signed_content("run-1", one));
    answer.weights = std::move(said);
    answer.certificate = diloco::read_file(pki_.credentials(region).certificate).value();
    return answer;
  }
  void say(const std::string& region, std::vector<SignedWeights> said) {
    votes_.add(region, answer(region, std::move(said)), context_);
  }
  // The version that is agreed on; 0: none.
  diloco::Round newest(const std::optional<SignedWeights>& ours = {}) const {
    const auto agreed = votes_.newest(ours);
    return agreed ? agreed->weights.version : 0;
  }

  test::TestPki pki_{{"a", "b", "c"}};
  inter::TlsContext context_ =
      inter::make_tls_context(pki_.credentials("a"), inter::TlsRole::client);
  WeightsVotes votes_{{"a", "b", "c"}, 2};
};

TEST_F(WeightsVotesTest, TheNewestThatEnoughHaveSignedCounts) {
  say("a", {weights(3), weights(4), weights(5)});
  EXPECT_EQ(newest(), 0U) << "one alone";
  say("b", {weights(4)});
  EXPECT_EQ(newest(), 4U);
  say("c", {weights(4), weights(5)});
  EXPECT_EQ(newest(), 5U);
  EXPECT_EQ(votes_.newest({})->signatures.size(), 2U);
  EXPECT_EQ(newest(weights(5)), 5U);
}

TEST_F(WeightsVotesTest, ALiarStandsAlone) {
  say("a", {weights(9, 66)});
  say("b", {weights(4), weights(5)});
  EXPECT_EQ(newest(), 0U);
  say("c", {weights(5)});
  EXPECT_EQ(newest(), 5U);
  say("a", {weights(5, 66)});
  EXPECT_EQ(newest(), 5U);
  EXPECT_EQ(votes_.newest({})->weights.image, weights(5).image);
}

TEST_F(WeightsVotesTest, SignaturesOfOthersAndForgedOnesDoNotCount) {
  auto forged = answer("b", {weights(5)});
  EXPECT_THROW(votes_.add("a", forged, context_), inter::LinkError) << "another's certificate";
  forged = answer("a", {weights(5)});
  forged.weights[0].version = 6;
  EXPECT_THROW(votes_.add("a", forged, context_), inter::LinkError);
  forged = answer("a", {weights(5)});
  forged.run_id = "run-2";
  EXPECT_THROW(votes_.add("a", forged, context_), inter::LinkError) << "of another run";
  say("b", {weights(5)});
  votes_.add("reader.follower", {.run_id = "run-1", .weights = {weights(5)}}, context_);
  EXPECT_EQ(newest(), 0U) << "a follower's word counts for nothing";
}

TEST_F(WeightsVotesTest, NobodyGoesBackBecauseARegionIsBehind) {
  say("a", {weights(4), weights(5)});
  say("c", {weights(4)});
  EXPECT_EQ(newest(weights(5)), 0U);
  EXPECT_EQ(newest(weights(3)), 4U);
}

TEST_F(WeightsVotesTest, ARunThatWentBackIsFollowed) {
  say("a", {weights(3), weights(4, 1)});
  say("b", {weights(3)});
  EXPECT_EQ(newest(weights(5)), 3U);
}

TEST_F(WeightsVotesTest, TheEndIsWhereEnoughSayItIs) {
  auto ended = answer("a", {weights(5)});
  ended.finished = {5, weights(5).state};
  votes_.add("a", ended, context_);
  EXPECT_EQ(votes_.end(), std::nullopt);
  ended = answer("b", {weights(5)});
  ended.finished = {6, weights(6).state};
  votes_.add("b", ended, context_);
  EXPECT_EQ(votes_.end(), std::nullopt);
  ended = answer("c", {weights(5)});
  ended.finished = {5, weights(5).state};
  votes_.add("c", ended, context_);
  EXPECT_EQ(votes_.end(), (diloco::Applied{5, weights(5).state}));
}

}  // namespace
}  // namespace causeway::run
