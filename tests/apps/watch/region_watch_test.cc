#include "apps/run/watch/region_watch.h"

#include <optional>

#include <gtest/gtest.h>

#include "apps/run/region/region_files.h"
#include "tests/apps/temporary.h"
#include "tests/support/process_limits.h"

namespace causeway::run {
namespace {

std::string event(int round) {
  return R"({"round": )" + std::to_string(round) +
         R"(, "region": "east", "participants": ["east"], "step": )" +
         std::to_string(20 * (round + 1)) + R"(, "loss": 2.5, "time_unix_s": 1000})";
}

std::size_t tensorboard_bytes(const TemporaryDirectory& directory) {
  return read_text_file(directory / "tensorboard/east/events.out.tfevents.0.causeway").size();
}

TEST(RegionWatch, TensorBoardHasEachRoundAtOnceAndThoseOfEarlierProcesses) {
  const TemporaryDirectory directory;
  const Config config = load_text(kSmallConfig);
  RegionWatch watch(config, "east", directory.path(), "");
  watch.add(event(0));
  const std::size_t one = tensorboard_bytes(directory);
  watch.add(event(1));
  const std::size_t two = tensorboard_bytes(directory);
  EXPECT_GT(two, one);

  directory.write("events.jsonl", event(0) + "\n" + event(1) + "\n" + event(2) + "\n");
  RegionWatch later(config, "east", directory.path(), "");
  later.add(event(2));
  EXPECT_EQ(tensorboard_bytes(directory) - two, two - one);
}

// The thread that is told of them leads rounds, and a run of months has many.
TEST(RegionWatch, TensorBoardGetsManyEarlierRoundsSomeAtATime) {
  const TemporaryDirectory directory, at_once;
  const Config config = load_text(kSmallConfig);
  constexpr int kEarlier = 5000;
  RegionWatch all(config, "east", at_once.path(), "");
  std::string earlier;
  for (int round = 0; round < kEarlier; ++round) {
    all.add(event(round));
    earlier += event(round) + "\n";
  }
  directory.write("events.jsonl", earlier);
  RegionWatch watch(config, "east", directory.path(), "");
  watch.add(event(kEarlier));
  all.add(event(kEarlier));
  EXPECT_LT(tensorboard_bytes(directory), tensorboard_bytes(at_once) / 2);
  for (int second = 0; second < kEarlier / 100; ++second) watch.beat();
  EXPECT_EQ(tensorboard_bytes(directory), tensorboard_bytes(at_once));
  watch.add(event(kEarlier + 1));
  all.add(event(kEarlier + 1));
  EXPECT_EQ(tensorboard_bytes(directory), tensorboard_bytes(at_once));
}

// Its file takes the place of the one before.
TEST(RegionWatch, TensorBoardHasAllRoundsWhenAProcessEndsThatDidNotLiveLong) {
  const TemporaryDirectory directory;
  const Config config = load_text(kSmallConfig);
  constexpr int kEarlier = 5000;
  std::string earlier;
  {
    RegionWatch before(config, "east", directory.path(), "");
    for (int round = 0; round < kEarlier; ++round) {
      before.add(event(round));
      earlier += event(round) + "\n";
    }
  }
  const std::size_t all = tensorboard_bytes(directory);
  directory.write("events.jsonl", earlier);
  RegionWatch(config, "east", directory.path(), "").add(event(kEarlier));
  EXPECT_GT(tensorboard_bytes(directory), all);
}

// Whoever restarts what is not healthy is to be patient while a long ledger is read.
TEST(RegionWatch, IsNotHealthyBeforeItsFirstBeat) {
  const TemporaryDirectory directory;
  RegionWatch watch(load_text(kSmallConfig), "east", directory.path(), "");
  directory.write("status.json", R"({"leader": "east"})");  // of an earlier process
  EXPECT_EQ(watch.not_healthy(), "starting: the coordinator is still opening its files");
  EXPECT_EQ(watch.not_ready(), watch.not_healthy());
  watch.beat();
  EXPECT_EQ(watch.not_healthy(), "");
  EXPECT_EQ(watch.not_ready(), "");
}

TEST(RegionWatch, WhatIsNoRoundOrCannotBeWrittenEndsNothing) {
  const TemporaryDirectory directory;
  directory.write("tensorboard", "a file where a directory should be");
  const Config config = load_text(kSmallConfig);
  RegionWatch watch(config, "east", directory.path(), "");
  watch.add(R"({"event": "peer_down"})");
  EXPECT_NO_THROW(watch.add(event(0)));
}

TEST(RegionWatch, TheCurvesOfRoundsThatADiskRefusedAreThereOnceItTakesThem) {
  const TemporaryDirectory directory, roomy;
  const Config config = load_text(kSmallConfig);
  RegionWatch watch(config, "east", directory.path(), "");
  RegionWatch other(config, "east", roomy.path(), "");
  for (int round = 0; round < 3; ++round) {
    std::optional<test::FullDisk> full;
    if (round < 2) full.emplace(60);
    watch.add(event(round));
    full.reset();
    other.add(event(round));
  }
  EXPECT_EQ(tensorboard_bytes(directory), tensorboard_bytes(roomy));
}

}  // namespace
}  // namespace causeway::run
