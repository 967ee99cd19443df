// What a trainer of one's own leaves behind at the end of a run.
#include "intra/worker/worker_result.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "intra/worker/worker.h"
#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/scripted_coordinator.h"

namespace causeway {
namespace {

TEST(WorkerResult, LeavesAResultThatEndsALaterLifeWithoutACoordinator) {
  const intra::TemporaryDirectory directory;
  std::vector<float> params = kInitial, result(kInitial.size());
  {
    Coordinator coordinator(directory.path());
    coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
    Worker worker(settings(directory), kInitial);
    take_steps(worker, params, 0.5F);
    EXPECT_FALSE(worker.next(result));
    EXPECT_FALSE(worker.next(result)) << "it is over for good";
  }
  const auto left = intra::read_result(directory.path());
  ASSERT_TRUE(left);
  EXPECT_EQ(left->progress.step(), 4);
  EXPECT_EQ(left->progress.round(), 1);
  EXPECT_EQ(left->params_digest.size(), 64);
  EXPECT_FALSE(left->val_loss()) << "nobody evaluated it";
  Worker again(settings(directory), kInitial);
  std::ranges::fill(result, 0.0F);
  EXPECT_FALSE(again.next(result));
  EXPECT_EQ(result, params);
}

TEST(WorkerResult, ComesBackAsItWasWritten) {
  const intra::TemporaryDirectory directory;
  intra::WorkerResult written{.run_steps = 9,
                              .run_id = "0a",
                              .common_val_loss = 1.5,
                              .params_digest = "ab",
                              .timed_steps = true};
  diloco::Progress& end = written.progress;
  end.set_step(8);
  end.set_round(2);
  end.set_tokens_per_s(0.1);
  end.set_tokens(std::uint64_t{1} << 60);
  end.set_compute_s(1.25);
  end.set_wait_s(0.75);
  end.set_in_region_s(0.5);
  end.set_outer_s(0.25);
  end.set_save_s(0.125);
  end.set_memory_peak_bytes(7);
  end.set_device_memory_peak_bytes(6);
  end.set_val_loss(2.5);
  end.set_mfu(0.3);
  intra::write_result(directory.path(), written);
  const auto read = intra::read_result(directory.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->progress.SerializeAsString(), end.SerializeAsString());
  EXPECT_EQ(read->run_steps, 9);
  EXPECT_EQ(read->run_id, "0a");
  EXPECT_TRUE(read->is_of("0a"));
  EXPECT_FALSE(read->is_of("0b"));
  EXPECT_TRUE(intra::WorkerResult{}.is_of("0a")) << "of an earlier version";
  EXPECT_TRUE(read->ends("0a", end.round()));
  EXPECT_FALSE(read->ends("0a", end.round() + 1));
  EXPECT_FALSE(read->ends("0b", end.round()));
  EXPECT_FALSE(intra::WorkerResult{}.ends("0a", 0)) << "nothing was trained";
  EXPECT_EQ(read->common_val_loss, 1.5);
  EXPECT_EQ(read->params_digest, "ab");
  EXPECT_TRUE(read->timed_steps);
  EXPECT_EQ(read->utilisation(), 1.25 / 2);
}

TEST(WorkerResult, OfAProgramHasNoKeysOfWhatNobodyKnows) {
  const intra::TemporaryDirectory directory;
  diloco::Progress end;
  end.set_step(4);
  intra::write_result(directory.path(), {.progress = end, .params_digest = "ab"});
  std::ifstream file(directory.path() / "result.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_FALSE(json.contains("val_loss"));
  EXPECT_FALSE(json.contains("mfu"));
  EXPECT_EQ(json.at("steps"), 4);
  EXPECT_EQ(intra::read_result(directory.path())->params_digest, "ab");
}

TEST(WorkerResult, ALossThatIsNoNumberIsNotOneThatIsMissing) {
  const intra::TemporaryDirectory directory;
  diloco::Progress end;
  end.set_val_loss(std::nan(""));
  intra::write_result(directory.path(), {.progress = end, .params_digest = "ab"});
  const auto result = intra::read_result(directory.path());
  ASSERT_TRUE(result && result->val_loss());
  EXPECT_TRUE(std::isnan(*result->val_loss()));
  EXPECT_FALSE(result->common_val_loss);
  EXPECT_EQ(result->progress.mfu(), 0);
}

}  // namespace
}  // namespace causeway
