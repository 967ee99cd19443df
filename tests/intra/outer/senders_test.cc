#include "intra/outer/senders.h"

#include <numeric>

#include "tests/intra/outer/outer_round_fixture.h"

namespace causeway::intra {
namespace {

using Mean = diloco::OuterOptions::Mean;

constexpr std::size_t kMatrix = 0;  // the segment of "a"
constexpr std::size_t kElements = 4096;

// What a region sends that moved these elements of "a" by as much.
Bytes moved(const std::vector<std::pair<std::size_t, float>>& by, const std::string& spec) {
  OuterState state(layout());
  for (const auto& [element, value] : by) state.params[element] = -value;
  state.digest = whole_digest(state);
  state.work.steps = 4;
  return encode(make_round(codec(spec), averaging()), state);
}

class Senders : public testing::Test {
 protected:
  void send(float weight, const Bytes& payload) {
    payloads_.push_back(payload);
    weights_.push_back(weight);
  }
  std::vector<float> factors() const {
    std::vector<std::size_t> segments(layout().segments().size());
    std::iota(segments.begin(), segments.end(), std::size_t{0});
    std::vector<Decoder> decoders;
    for (const Bytes& payload : payloads_) decoders.emplace_back(payload, layout(), segments);
    std::vector<Sender> senders;
    for (std::size_t i = 0; i < decoders.size(); ++i)
      senders.push_back({&decoders[i], weights_[i]});
    return factors_by_senders(senders, kMatrix, kElements);
  }

 private:
  std::vector<Bytes> payloads_;
  std::vector<float> weights_;
};

constexpr const char* kOneValue = "topk:k=1,chunk=4096,value=fp32,index=raw";

TEST_F(Senders, AreThoseWhoHoldAnElement) {
  send(0.25F, moved({{7, 1}}, kOneValue));
  send(0.25F, moved({{7, 1}}, kOneValue));
  send(0.25F, moved({{7, 1}}, kOneValue));
  send(0.25F, moved({{9, 1}}, kOneValue));
  const std::vector<float> found = factors();
  EXPECT_EQ(found[7], 4.0F / 3);
  EXPECT_EQ(found[9], 4.0F);
  EXPECT_EQ(found[8], 4.0F) << "nobody sent it: times zero";
}

TEST_F(Senders, OfLessWeightCountLessWhereTheyAreAlone) {
  send(0.5F, moved({{7, 1}}, kOneValue));
  send(0.125F, moved({{9, 1}}, kOneValue));
  const std::vector<float> found = factors();
  EXPECT_EQ(found[7] * 0.5F, 0.625F) << "the weight of the round";
  EXPECT_EQ(found[9] * 0.125F, 0.625F * 0.25F);
}

TEST_F(Senders, OfAnElementThatAllHoldHaveTheirWeightedMean) {
  send(0.75F, moved({{7, 1}}, kOneValue));
  send(0.125F, moved({{7, 1}}, kOneValue));
  send(0.125F, moved({{7, 1}}, kOneValue));
  EXPECT_EQ(factors()[7], 1.0F);
}

TEST_F(Senders, WithoutWeightMoveNothing) {
  send(0, moved({{7, 1}}, kOneValue));
  send(0, moved({{9, 1}}, kOneValue));
  EXPECT_TRUE(factors().empty());
}

TEST_F(Senders, OfDensePayloadsAreAll) {
  send(0.5F, moved({{7, 1}}, kExact));
  send(0.5F, moved({{9, 1}}, kExact));
  EXPECT_TRUE(factors().empty());
}

TEST_F(Senders, OfADensePayloadBesideASparseOneHoldAll) {
  send(0.5F, moved({{7, 1}}, kExact));
  send(0.5F, moved({{9, 1}}, kOneValue));
  const std::vector<float> found = factors();
  EXPECT_EQ(found[7], 2.0F);
  EXPECT_EQ(found[9], 1.0F);
}

// The anchor goes where the only region that knows a value says, and half as far for a mean of all.
TEST(OuterRoundBySenders, ValuesOfOneRegionAloneCountWhole) {
  for (const auto& [mean, whole] : {std::pair(Mean::all, 0.5F), std::pair(Mean::senders, 1.0F)}) {
    diloco::OuterOptions outer = averaging();
    outer.mean = mean;
    OuterState state(layout());
    state.digest = whole_digest(state);
    apply(make_round(codec(kOneValue), outer, "eu"), state,
          {{"eu", moved({{7, 1}}, kOneValue)}, {"us", moved({{9, 0.5F}}, kOneValue)}});
    EXPECT_EQ(state.anchor[7], -whole);
    EXPECT_EQ(state.anchor[9], -0.5F * whole);
    EXPECT_EQ(state.digest, whole_digest(state));
  }
}

}  // namespace
}  // namespace causeway::intra
