#include "intra/collective/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <thread>

#include "intra/base/error.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

constexpr std::size_t kChunk = 4096;
constexpr std::size_t kChunkBytes = kChunk * sizeof(float);

// Three matrices of 1, 2 and 1 chunks, and two vectors that share the last.
diloco::Layout small_layout() {
  return diloco::Layout({{"a", {64, 64}}, {"b", {64, 100}}, {"c", {3, 5}}, {"x", {7}}, {"y", {9}}});
}

// Two ranks of which the other adds nothing; remembers the calls.
class RecordingCollective final : public Collective {
 public:
  explicit RecordingCollective(const float* base, std::size_t world = 2)
      : base_(base), world_(world) {}
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return world_; }
  void all_reduce_sum(std::span<float> values) override {
    if (on_call) on_call(calls.size());
    calls.emplace_back(values.data() - base_, values.size());
  }
  void broadcast(std::span<std::byte>, std::size_t) override { FAIL(); }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte>) override { return {}; }
  void barrier() override { FAIL(); }

  std::vector<std::pair<std::size_t, std::size_t>> calls;  // offset, count
  std::function<void(std::size_t)> on_call;

 private:
  const float* base_;
  std::size_t world_;
};

void report_all(GradientReducer& reducer, const diloco::Layout& layout) {
  const auto tensors = layout.tensors();
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    reducer.ready(tensor->offset, tensor->spec.count());
  }
}

const std::vector<std::pair<std::size_t, std::size_t>> kBucketsOfTwoChunks = {
    {2 * kChunk, 2 * kChunk}, {0, 2 * kChunk}, {4 * kChunk, kChunk}};

TEST(GradientReducer, SumsNothingWhileItIsHeld) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective collective(gradients.data());
  GradientReducer reducer(collective, {layout, 2 * kChunkBytes}, gradients);
  std::atomic<bool> held = true;
  collective.on_call = [&](std::size_t) { EXPECT_FALSE(held); };
  for (int step = 0; step < 2; ++step) {
    held = true;
    reducer.hold();
    report_all(reducer, layout);
    std::this_thread::yield();
    EXPECT_EQ(collective.calls.size(), step * kBucketsOfTwoChunks.size());
    held = false;
    reducer.resume();
    reducer.finish();
  }
  EXPECT_EQ(collective.calls.size(), 2 * kBucketsOfTwoChunks.size());
}

TEST(GradientReducer, CutsFromTheLastMatrixDownAndEndsWithTheVectors) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  GradientReducer reducer(group, {layout, 2 * kChunkBytes}, gradients);
  report_all(reducer, layout);
  reducer.finish();
  EXPECT_EQ(group.calls, kBucketsOfTwoChunks);
}

TEST(GradientReducer, ReducesNothingBeforeTheDeviceIsThere) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  std::size_t asked = 0;
  std::atomic<std::size_t> reached = 0;
  const auto point = [&] { return [&reached, here = ++asked] { reached = here; }; };
  group.on_call = [&](std::size_t bucket) { EXPECT_EQ(reached, bucket + 1); };
  GradientReducer reducer(group, {layout, 2 * kChunkBytes}, gradients,
                          GradientReducer::Result::everywhere, point);
  for (std::size_t step = 0; step < 2; ++step) {
    report_all(reducer, layout);
    reducer.finish();
    EXPECT_EQ(asked, group.calls.size());
    asked = 0;
    group.calls.clear();
  }
}

TEST(GradientReducer, MakesTheSameCallsWhateverTheReports) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  GradientReducer reducer(group, {layout, 2 * kChunkBytes}, gradients);
  reducer.finish();  // no report at all
  EXPECT_EQ(group.calls, kBucketsOfTwoChunks);
  group.calls.clear();
  reducer.ready(layout.find("x").offset, 7);  // vectors first, then one report for all matrices
  reducer.ready(0, 4 * kChunk);
  reducer.finish();
  EXPECT_EQ(group.calls, kBucketsOfTwoChunks);
}

TEST(GradientReducer, RoundsBucketsUpToAChunk) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kChunkBytes}) {
    RecordingCollective group(gradients.data());
    GradientReducer(group, {layout, bytes}, gradients).finish();
    EXPECT_EQ(group.calls.size(), 5U);
  }
  RecordingCollective group(gradients.data());
  GradientReducer(group, {layout, kChunkBytes + 1}, gradients).finish();
  EXPECT_EQ(group.calls, kBucketsOfTwoChunks);
}

TEST(GradientReducer, ReducesWhileBackwardStillRuns) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  std::promise<void> first_call;
  group.on_call = [&](std::size_t call) {
    if (call == 0) first_call.set_value();
  };
  GradientReducer reducer(group, {layout, kChunkBytes}, gradients);
  reducer.ready(layout.find("c").offset, 15);
  first_call.get_future().wait();  // hangs if the reducer waits for finish()
  reducer.ready(layout.find("b").offset, 6400);
  reducer.ready(0, kChunk);
  reducer.finish();
  EXPECT_EQ(group.calls.size(), 5U);
}

TEST(GradientReducer, TouchesNoGradientBeforeItsReport) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  std::atomic<bool> reported = false;
  group.on_call = [&](std::size_t) { EXPECT_TRUE(reported); };
  GradientReducer reducer(group, {layout, 4 * kChunkBytes}, gradients);
  reducer.ready(layout.find("c").offset, 15);
  reducer.ready(layout.find("b").offset, 6400);
  reducer.ready(layout.find("y").offset, 9);
  reported = true;
  reducer.ready(0, kChunk);
  reducer.finish();
}

TEST(GradientReducer, RethrowsWhatTheCollectiveThrew) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  group.on_call = [](std::size_t call) {
    if (call == 1) throw std::system_error(Errc::collective, "rank 1 died");
  };
  GradientReducer reducer(group, {layout, kChunkBytes}, gradients);
  report_all(reducer, layout);
  for (int turn = 0; turn < 2; ++turn) {
    try {
      reducer.finish();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::collective);
    }
  }
  EXPECT_EQ(group.calls.size(), 1U) << "nothing may follow the failure";
}

TEST(GradientReducer, CanBeAbandonedInAnyState) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data());
  { const GradientReducer unused(group, {layout, kChunkBytes}, gradients); }
  {
    GradientReducer reducer(group, {layout, kChunkBytes}, gradients);
    reducer.ready(layout.find("c").offset, 15);
  }
  EXPECT_LE(group.calls.size(), 1U);
}

TEST(GradientReducer, DoesNothingInAGroupOfOne) {
  const diloco::Layout layout = small_layout();
  std::vector<float> gradients(layout.size());
  RecordingCollective group(gradients.data(), 1);
  GradientReducer reducer(group, {layout, kChunkBytes}, gradients);
  report_all(reducer, layout);
  reducer.finish();
  EXPECT_TRUE(group.calls.empty());
}

TEST(GradientReducer, SumsEveryStepOverARealGroup) {
  const TemporaryDirectory directory;
  const diloco::Layout layout = small_layout();
  constexpr std::size_t kWorld = 3;
  const auto gradient = [](std::size_t rank, int step, std::size_t i) {
    return std::sin(static_cast<float>(i + 100 * rank + 1000 * static_cast<std::size_t>(step)));
  };
  std::vector<std::thread> ranks;
  std::vector<std::vector<float>> last(kWorld);
  for (std::size_t rank = 0; rank < kWorld; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto group = make_collective({directory.path(), "test", rank, kWorld});
      std::vector<float> gradients(layout.size());
      GradientReducer reducer(*group, {layout, kChunkBytes}, gradients);
      for (int step = 0; step < 5; ++step) {
        for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = gradient(rank, step, i);
        report_all(reducer, layout);
        reducer.finish();
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          const double sum = static_cast<double>(gradient(0, step, i)) + gradient(1, step, i) +
                             gradient(2, step, i);
          ASSERT_NEAR(gradients[i], sum, 1e-6);
        }
        group->barrier();  // between steps the collective is the caller's
      }
      last[rank] = gradients;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(last[0], last[1]);
  EXPECT_EQ(last[0], last[2]);
}

}  // namespace
}  // namespace causeway::intra
