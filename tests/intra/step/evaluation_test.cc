#include "intra/step/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/intra/collective/on_ranks.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/scripted_model.h"

namespace causeway::intra {
namespace {

constexpr std::int64_t kContext = 8;

// 2,000 bytes of which the last 1,000 are for validation; byte i of those is i / 4, so that a
// window tells where it is.
Dataset numbered_dataset(const TemporaryDirectory& directory) {
  std::string text(1000, 'x');
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i / 4);
  return Dataset({.files = {directory.file("text", text)}, .validation_fraction = 0.5});
}

ModelOptions options() {
  return {.vocabulary = 256, .context = kContext};
}

TEST(ValidationLoss, SpreadsItsWindowsEvenly) {
  const TemporaryDirectory directory;
  const Dataset dataset = numbered_dataset(directory);
  ScriptedModel model(options());
  std::vector<std::int32_t> firsts;
  model.loss = [&](const Batch& batch) {
    EXPECT_EQ(batch.length, kContext);
    for (std::int64_t i = 0; i < batch.batch; ++i) {
      firsts.push_back(batch.tokens[i * kContext]);
      EXPECT_EQ(batch.targets[i * kContext], batch.tokens[i * kContext + 1]);
    }
    return 1.0F;
  };
  const auto alone = make_collective({});
  EXPECT_EQ(validation_loss(model, {}, dataset, 10, *alone), 1.0);
  EXPECT_THAT(firsts, testing::ElementsAre(0, 24, 49, 74, 99, 123, 148, 173, 198, 222));
}

TEST(ValidationLoss, IsTheMeanOverWindowsAndTheSameForAnyNumberOfRanks) {
  const TemporaryDirectory directory;
  const Dataset dataset = numbered_dataset(directory);
  std::vector<double> results;
  for (const std::size_t world : {1, 2, 3}) {
    std::mutex mutex;
    on_ranks(world, [&](Collective& group) {
      ScriptedModel model(options());
      model.loss = [](const Batch& batch) {
        float sum = 0;
        for (std::int64_t i = 0; i < batch.batch; ++i) {
          sum += 0.1F * static_cast<float>(batch.tokens[i * kContext]);
        }
        return sum / static_cast<float>(batch.batch);
      };
      const double loss = validation_loss(model, {}, dataset, 19, group);
      const std::lock_guard lock(mutex);
      results.push_back(loss);
    });
  }
  EXPECT_THAT(results, testing::Each(results[0]));
  // Window i starts at byte 52 i, whose value is 13 i; i = 0 ... 18.
  EXPECT_NEAR(results[0], 0.1 * 13 * 9, 1e-4);
}

TEST(ValidationLoss, IsTheMeanOfTheLossesOfItsBlocks) {
  const TemporaryDirectory directory;
  const Dataset dataset = numbered_dataset(directory);
  ScriptedModel model(options());
  model.loss = [](const Batch& batch) { return static_cast<float>(batch.tokens[0]); };
  const std::vector<BlockLoss> blocks = block_losses(model, {}, dataset, 19);
  ASSERT_EQ(blocks.size(), 3U);
  double sum = 0, windows = 0;
  for (const BlockLoss& block : blocks) {
    sum += block.loss * static_cast<double>(block.windows);
    windows += static_cast<double>(block.windows);
  }
  EXPECT_EQ(blocks[2].windows, 3U);
  EXPECT_EQ(blocks[1].loss, 13 * 8);
  const auto alone = make_collective({});
  EXPECT_EQ(sum / windows, validation_loss(model, {}, dataset, 19, *alone));
}

TEST(ValidationLoss, TakesNoMoreWindowsThanThereAre) {
  const TemporaryDirectory directory;
  const Dataset dataset = numbered_dataset(directory);
  ScriptedModel model(options());
  std::int64_t windows = 0;
  model.loss = [&](const Batch& batch) {
    windows += batch.batch;
    return 1.0F;
  };
  const auto alone = make_collective({});
  validation_loss(model, {}, dataset, 1'000'000, *alone);
  EXPECT_EQ(windows, (1000 - 1) / kContext);
}

TEST(ValidationLoss, NeedsOneWholeWindow) {
  const TemporaryDirectory directory;
  const Dataset dataset(
      {.files = {directory.file("text", std::string(80, 'x'))}, .validation_fraction = 0.1});
  EXPECT_NO_THROW(check_validation(dataset, dataset.validation_tokens() - 1));
  expect_refusal(Errc::bad_data, {"data.validation_fraction"}, [&] {
    check_validation(dataset, static_cast<std::int64_t>(dataset.validation_tokens()));
  });
}

}  // namespace
}  // namespace causeway::intra
