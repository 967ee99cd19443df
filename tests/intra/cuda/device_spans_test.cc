// Outer rounds of the device, played on the CPU, against the CPU's: the same bits.
#include "intra/cuda/step/device_spans.h"

#include <cmath>

#include "compression/codecs/payload.h"
#include "intra/base/global_norm.h"
#include "tests/intra/cuda/outer_history.h"
#include "tests/intra/cuda/serial_backend.h"

namespace causeway::intra::cuda {
namespace {

class OuterRoundOnDevice : public testing::TestWithParam<HistoryCase> {};

TEST_P(OuterRoundOnDevice, HasTheBitsOfTheCpu) {
  expect_same_history(GetParam(), [] { return std::make_unique<SerialBackend>(); });
}

// Backwards: what depends on the order of lanes is a race. Without a group of their own: the ranks
// meet on the host.
TEST_P(OuterRoundOnDevice, HasThemInAnyOrderOfLanesAndGroups) {
  expect_same_history(GetParam(), [] { return std::make_unique<SerialBackend>(true, false); });
}

INSTANTIATE_TEST_SUITE_P(Cases, OuterRoundOnDevice, testing::ValuesIn(history_cases()),
                         [](const auto& each) { return each.param.name; });

// Spans on a serial backend, of a state.
struct SpansUnderTest {
  explicit SpansUnderTest(OuterState& state)
      : params(backend, layout().size()),
        scratch(backend, layout().size()),
        spans(layout(), backend, backend, params, scratch.device(), false) {
    spans.join(state, nullptr);
  }
  SerialBackend backend;
  Mirror params, scratch;
  DeviceSpans spans;
};

TEST(DeviceSpans, StateFollowsWhenSettled) {
  OuterState state = real_state(0);
  SpansUnderTest device(state);
  const std::vector<float> before = state.params;
  device.spans.copy(Flat::anchor, Flat::params);
  EXPECT_TRUE(device.spans.take_params_changed());
  EXPECT_EQ(state.params, before) << "not asked yet";
  device.spans.settled(Flat::params);
  EXPECT_EQ(state.params, state.anchor);
  device.spans.copy(Flat::anchor, Flat::mark);
  state.mark.clear();
  device.spans.settle();
  EXPECT_TRUE(state.mark.empty()) << "a mark that was given up does not come back";
}

// A payload's bytes are another region's.
TEST(DeviceSpans, RefusesDamagedEncodings) {
  for (const char* spec : {"dense:int8,block=128", kSparse}) {
    OuterState state = real_state(0), other = real_state(1);
    const Bytes good = encode(make_round(codec(spec), {}, "eu"), other);
    const compression::Payload payload = compression::read_payload(good);
    for (const bool shorter : {false, true}) {
      std::vector<compression::EncodedSegment> segments = payload.segments;
      Bytes bytes(segments[2].bytes.size(), std::byte{0xFF});
      if (shorter) bytes.pop_back();
      segments[2].bytes = bytes;
      const Bytes bad = compression::write_payload(payload.codec_specs, segments);
      SpansUnderTest device(state);
      const intra::Decoder decoder(bad, layout(), device.spans.everything());
      try {
        device.spans.add(decoder, 1, Flat::scratch, device.spans.everything());
        ADD_FAILURE() << spec << " is accepted";
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), compression::Errc::malformed);
      }
    }
  }
}

TEST(BlockSquares, AddUpToTheGlobalNorm) {
  std::vector<float> values(3 * kSquareBlock + 4096);
  std::mt19937_64 engine(1);
  std::normal_distribution<float> normal(0, 1e-3F);
  for (float& value : values) value = normal(engine);
  std::vector<SquareBlock> blocks;
  append_blocks(0, values.size(), blocks);
  std::vector<double> sums(blocks.size() * kSquareSums);
  SerialBackend backend;
  backend.run(BlockSquares{blocks.size(), blocks.data(), values.data(), sums.data()});
  backend.point()->wait();
  double total = 0;
  for (std::size_t block = 0; block < sums.size(); block += kSquareSums) {
    double own = 0;
    for (std::size_t i = 0; i < kSquareSums; ++i) own += sums[block + i];
    total += own;
  }
  EXPECT_EQ(std::sqrt(total), global_norm(values));
}

}  // namespace
}  // namespace causeway::intra::cuda
