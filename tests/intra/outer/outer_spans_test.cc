// Of several threads each takes segments, or pieces of them, for itself: that changes no bit.
#include "intra/outer/outer_spans.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "compression/codecs/payload.h"
#include "intra/base/global_norm.h"
#include "intra/outer/codec_policy.h"
#include "tests/intra/outer/outer_round_fixture.h"
#include "tests/support/openmp.h"

namespace causeway::intra {
namespace {

// Segments of one piece, of several and of a part of one, and more of them than two for each
// thread.
const diloco::Layout& large() {
  static const diloco::Layout layout({{"a", {600, 700}},
                                      {"b", {64, 64}},
                                      {"c", {1500, 1000}},
                                      {"d", {64, 130}},
                                      {"e", {64, 64}},
                                      {"f", {64, 64}},
                                      {"x", {70}}});
  return layout;
}

OuterState random_state() {
  OuterState state(large());
  std::mt19937_64 engine(7);
  std::normal_distribution<float> normal(0, 1);
  for (std::vector<float>* span : {&state.anchor, &state.params, &state.scratch}) {
    span->resize(large().size());
    for (float& value : *span) value = normal(engine);
  }
  return state;
}

class HostSpansTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  }
  ~HostSpansTest() override { omp_set_num_threads(1); }
};

TEST_F(HostSpansTest, AStepAndItsLeavesAreTheSameInPiecesOfAnyNumberOfThreads) {
  omp_set_num_threads(1);
  OuterState expected = random_state();
  HostSpans alone(large(), expected);
  const std::vector<std::size_t> some{0, 2, 3};
  for (std::uint64_t turn = 0; turn < 2; ++turn) alone.outer_step({}, turn, some);
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    OuterState state = random_state();
    HostSpans spans(large(), state);
    spans.outer_step({}, 0, some);
    const OuterSpans::StepLeaves leaves = spans.outer_step_and_leaves({}, 1, some);
    EXPECT_EQ(state.anchor, expected.anchor);
    EXPECT_EQ(state.momentum, expected.momentum);
    std::vector<diloco::Digest> anchor, momentum;
    for (const std::size_t index : some) {
      const diloco::Segment& segment = large().segments()[index];
      const auto append = [&](std::vector<diloco::Digest>& to, const std::vector<float>& from) {
        const auto own =
            diloco::merkle_leaves(std::span(from).subspan(segment.offset, segment.count));
        to.insert(to.end(), own.begin(), own.end());
      };
      append(anchor, state.anchor);
      append(momentum, state.momentum);
    }
    EXPECT_EQ(leaves.anchor, anchor);
    EXPECT_EQ(leaves.momentum, momentum);
    EXPECT_EQ(spans.leaves(Flat::anchor, some), anchor);
  }
}

TEST_F(HostSpansTest, TheNormOfADeltaIsTheSameInPiecesOfAnyNumberOfThreads) {
  const CodecPolicy policy({}, large());
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    OuterState state = random_state();
    state.residual.assign(large().size(), 0.0F);
    HostSpans spans(large(), state);
    const std::vector<std::size_t> some{0, 2, 3};
    ASSERT_FALSE(spans.take_delta(Flat::anchor, policy.decay(), some));
    const std::vector<float> delta = state.scratch;
    std::vector<std::byte> out;
    const auto encoded = spans.encode(policy, {}, some, out);
    ASSERT_EQ(encoded.size(), some.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const diloco::Segment& segment = large().segments()[some[i]];
      const double norm = global_norm(std::span(delta).subspan(segment.offset, segment.count));
      EXPECT_GT(norm, 0);
      EXPECT_EQ(encoded[i].delta_squared, norm * norm);
    }
  }
}

TEST_F(HostSpansTest, OfDeltasThatAreNotFiniteTheFirstSegmentIsNamed) {
  const diloco::Segment& second = large().segments()[2];
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    OuterState state = random_state();
    HostSpans spans(large(), state);
    state.params[large().segments()[3].offset] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(spans.take_delta(Flat::anchor, 0, spans.everything()), std::optional<std::size_t>(3));
    state.params[second.offset + second.count - 1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(spans.take_delta(Flat::anchor, 0, spans.everything()), std::optional<std::size_t>(2));
  }
}

TEST_F(HostSpansTest, OfTwoDamagedSegmentsTheFirstIsNamedWhoeverFindsTheOtherFirst) {
  OuterState sender(layout());
  fill_real(sender.params, 1, 1);
  const Bytes whole = encode(make_round(codec(kSparse), {}, "eu"), sender);
  const compression::Payload good = compression::read_payload(whole);
  std::vector<compression::EncodedSegment> segments = good.segments;
  ASSERT_GE(segments.size(), 6U) << "two for each of three threads";
  const Bytes nonsense(segments[1].bytes.size(), std::byte{0xFF});
  segments[1].bytes = nonsense;
  segments[4].bytes = {};
  const Bytes bad = compression::write_payload(good.codec_specs, segments);
  std::string expected;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    OuterState state(layout());
    state.scratch.resize(layout().size());
    HostSpans spans(layout(), state);
    const Decoder decoder(bad, layout(), spans.everything());
    const OuterSpans::Term term{&decoder, 1.0F, "the payload of eu"};
    try {
      spans.sum(std::span(&term, 1), spans.everything());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::system_error& error) {
      if (expected.empty()) expected = error.what();
      EXPECT_EQ(error.what(), expected);
      EXPECT_TRUE(expected.starts_with("the payload of eu cannot be decoded: ")) << expected;
    }
  }
}

TEST_F(HostSpansTest, NothingHasNoLeaves) {
  OuterState state = random_state();
  HostSpans spans(large(), state);
  EXPECT_TRUE(spans.outer_step_and_leaves({}, 0, {}).anchor.empty());
  EXPECT_TRUE(spans.leaves(Flat::anchor, {}).empty());
}

}  // namespace
}  // namespace causeway::intra
