#include "compression/codecs/outliers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace causeway::compression {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr float kThird = 1.0F / 3;

std::vector<std::size_t> places_of(const std::vector<SentNorm>& sent) {
  std::vector<std::size_t> places;
  for (const Outlier& one : outliers(sent, kPayloadLimit)) places.push_back(one.place);
  return places;
}

// Of three regions that count alike, one with a norm of so many times that of the others.
std::vector<SentNorm> one_of(double times) {
  return {{0, "ap", kThird, 4}, {1, "eu", kThird, 4 * times * times}, {2, "us", kThird, 4}};
}

TEST(Outliers, AreThoseOfMoreThanSixteenTimesTheMedianByTheirWeight) {
  EXPECT_THAT(places_of(one_of(47)), IsEmpty());
  EXPECT_THAT(places_of(one_of(49)), ElementsAre(1));
  EXPECT_NEAR(outliers(one_of(300), kPayloadLimit)[0].times, 100, 1e-4);
}

// A part of a model may have what only one region's data has.
TEST(Outliers, OfPartsAreThoseOfFarMore) {
  EXPECT_THAT(outliers(one_of(12'000), kPartLimit), IsEmpty());
  EXPECT_EQ(outliers(one_of(13'000), kPartLimit).size(), 1);
}

TEST(Outliers, CanBeAsLargeAsNumbersGet) {
  EXPECT_THAT(places_of(one_of(1e44)), ElementsAre(1));
}

// Whose weight the cap on the norms has lowered says what it sent.
TEST(Outliers, AreNotThoseWhoseWeightIsCapped) {
  auto sent = one_of(1e6);
  sent[1].weight = 3e-6F * kThird;
  EXPECT_THAT(places_of(sent), IsEmpty());
}

TEST(Outliers, HaveTheirPlaces) {
  EXPECT_THAT(places_of({{7, "ap", kThird, 1e9}, {9, "eu", kThird, 1}, {11, "us", kThird, 1}}),
              ElementsAre(7));
}

TEST(Outliers, AreNotFoundAmongTwo) {
  EXPECT_THAT(places_of({{0, "ap", 0.5F, 1e30}, {1, "eu", 0.5F, 1}}), IsEmpty());
}

// It cannot make a median of its own by late contributions.
TEST(Outliers, ASenderCountsOnceForTheMedian) {
  EXPECT_THAT(places_of({{0, "ap", 0.2F, 1e30},
                         {1, "ap", 0.2F, 1e30},
                         {2, "ap", 0.2F, 1e30},
                         {3, "eu", 0.2F, 1},
                         {4, "us", 0.2F, 1}}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(places_of({{0, "ap", kThird, 1e30}, {1, "ap", kThird, 1}, {2, "eu", kThird, 1}}),
              IsEmpty());
}

// As after steps with a learning rate of 0.
TEST(Outliers, AreNotFoundWhereMostSendZeros) {
  EXPECT_THAT(places_of({{0, "ap", kThird, 1}, {1, "eu", kThird, 0}, {2, "us", kThird, 0}}),
              IsEmpty());
}

TEST(Outliers, SayWhatTheyWouldDo) {
  EXPECT_EQ(in_words({0, 123456}),
            "would move the model 1.23e+05 times as far as what most regions sent");
}

}  // namespace
}  // namespace causeway::compression
