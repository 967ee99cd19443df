// Which of the states that were saved stay, and which of them a worker begins with: whatever a disk
// damages, loses or refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "diloco/files/file_io.h"
#include "intra/outer/state_file.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/state_on_disk.h"
#include "tests/support/process_limits.h"

namespace causeway::intra {
namespace {

class KeptStates : public StateOnDisk {};

TEST_F(KeptStates, EachThatIsKeptHasItsOwnAnchorAndMomentum) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (state.version = 1; state.version <= 4; ++state.version) {
    state.anchor[0] = static_cast<float>(state.version);
    state.digest = whole_digest(state);
    save_state(directory.path(), layout(), state, 3);
    EXPECT_EQ(outer_files(directory), std::min<std::size_t>(state.version, 3));
  }
  TrainingState loaded({}, layout());
  // Damaged, or gone: the state before it is the newest that is whole.
  const std::filesystem::path newest = outer_of_newest(directory);
  damage(newest);
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 3);
  EXPECT_EQ(loaded.anchor[0], 3);
  std::filesystem::remove(newest);
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 3);
  // It comes to version 4 again.
  loaded.version = 4;
  loaded.anchor = state.anchor;
  loaded.digest = state.digest;
  save_state(directory.path(), layout(), loaded, 3);
  TrainingState again({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), again));
  EXPECT_EQ(again.version, 4);
  EXPECT_EQ(again.anchor, state.anchor);
}

// As after the loss of the newest one, which was of a later version.
TEST_F(KeptStates, TwoOfOneVersionDoNotShareTheirAnchor) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (state.version = 1; state.version <= 2; ++state.version)
    save_state(directory.path(), layout(), state);
  std::filesystem::remove(newest_state_file(directory.path()));
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  ASSERT_EQ(loaded.version, 1);
  save_state(directory.path(), layout(), loaded);
  EXPECT_EQ(state_files(directory.path()).size(), 2U);
  EXPECT_EQ(outer_files(directory), 2U);
  damage(outer_of_newest(directory));
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 1);
}

// It may be the disk that fails for a moment.
TEST_F(KeptStates, WhatAStateThatCannotBeReadNamesIsKept) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (state.version = 1; state.version <= 2; ++state.version)
    save_state(directory.path(), layout(), state);
  const std::filesystem::path older = state_files(directory.path()).at(1);
  const std::string whole = diloco::read_file(older).value();
  std::ofstream(older) << "nonsense";
  state.version = 2;  // in place of the newest
  {
    const test::FullDisk full(2000);
    EXPECT_THROW(save_state(directory.path(), layout(), state), std::system_error);
  }
  diloco::replace_file(older, whole, diloco::Durability::visible);
  std::filesystem::remove(newest_state_file(directory.path()));
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 1);
}

// Too small a disk for the state, and one on which the state has room but not its outer file.
TEST_F(KeptStates, ADiskThatIsFullAtAnyByteCostsNoStateThatIsKept) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  const auto whole = std::filesystem::file_size(newest_state_file(directory.path()));
  const auto outer = std::filesystem::file_size(outer_of_newest(directory));
  ASSERT_LT(outer, whole);
  state.residual.clear();  // the outer file is the larger one now
  state.optimizer = AdamW({}, diloco::Layout(std::vector<diloco::TensorSpec>()));
  state.version = 8;
  for (const std::uintmax_t room : {std::uintmax_t{100}, outer / 2, outer - 1}) {
    const test::FullDisk full(room);
    EXPECT_THROW(save_state(directory.path(), layout(), state), std::system_error);
  }
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 7);
  EXPECT_EQ(outer_files(directory), 1U);
  save_state(directory.path(), layout(), state);
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 8);
}

TEST_F(KeptStates, KeepsTheContributionsOfTheStatesThatAreKept) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  EXPECT_EQ(contributions(directory).size(), 2);
  ++state.version;
  state.in_flight = {contribution(8, 0, 44)};
  save_state(directory.path(), layout(), state);
  EXPECT_EQ(contributions(directory).size(), 3);
  ++state.version;
  state.in_flight.clear();
  save_state(directory.path(), layout(), state);
  EXPECT_EQ(contributions(directory).size(), 1);
  ++state.version;
  save_state(directory.path(), layout(), state, 1);
  EXPECT_TRUE(contributions(directory).empty());
}

TEST_F(KeptStates, ADiskThatRefusesAgainAndAgainCostsNoStateThatIsKept) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  const auto save = [&](std::uint64_t version) {
    state.version = state.steps = version;
    save_state(directory.path(), layout(), state, 3);
  };
  for (const std::uint64_t version : {1, 2, 3}) save(version);
  {
    const test::FullDisk full(2000);
    for (const std::uint64_t version : {4, 5, 6}) EXPECT_THROW(save(version), std::system_error);
  }
  const auto steps_of = [&](const char* name) {
    return StateReader(checkpoint_directory(directory.path()) / name).get("steps");
  };
  EXPECT_EQ(steps_of("state.safetensors"), "3");
  save(7);
  EXPECT_EQ(steps_of("state.safetensors"), "7");
  EXPECT_EQ(steps_of("state.1.safetensors"), "3");
  EXPECT_EQ(steps_of("state.2.safetensors"), "2");
}

// What damages one leaves the other.
TEST_F(KeptStates, NoTwoFilesShareTheirBlocks) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  const auto none_is_shared = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(directory.path() / "checkpoints"))
      EXPECT_EQ(entry.hard_link_count(), 1U) << entry.path();
  };
  for (state.version = 1; state.version <= 3; ++state.version) {
    save_state(directory.path(), layout(), state, 2);
    none_is_shared();
  }
  const test::FullDisk full(2000);
  EXPECT_THROW(save_state(directory.path(), layout(), state, 2), std::system_error);
  none_is_shared();
}

TEST_F(KeptStates, ACounterThatTheDiskChangedIsNotBelieved) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (state.version = 1; state.version <= 2; ++state.version) {
    state.optimizer_steps = 2;
    save_state(directory.path(), layout(), state, 2);
  }
  const std::filesystem::path file = directory.path() / "checkpoints" / "state.safetensors";
  std::string bytes = diloco::read_file(file).value();
  const std::string counter = R"("optimizer_steps":"2)";
  bytes[bytes.find(counter) + counter.size() - 1] ^= 2;
  diloco::replace_file(file, bytes, diloco::Durability::visible);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 1);
  EXPECT_EQ(loaded.optimizer_steps, 2);
}

// A worker that is killed while it writes the next one must find the only good one.
TEST_F(KeptStates, TheNextOneTakesThePlaceOfTheDamagedOneAndNotOfTheGoodOneBefore) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (state.version = 1; state.version <= 2; ++state.version)
    save_state(directory.path(), layout(), state, 2);
  const auto file = [&](const char* name) { return checkpoint_directory(directory.path()) / name; };
  std::string bytes = diloco::read_file(file("state.safetensors")).value();
  bytes.back() ^= 1;
  diloco::replace_file(file("state.safetensors"), bytes, diloco::Durability::visible);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 1);
  loaded.version = 3;
  save_state(directory.path(), layout(), loaded, 2);
  std::filesystem::remove(file("state.safetensors"));
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, 1);
}

TEST_F(KeptStates, ComesFromTheNewestStateThatIsWhole) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (std::uint64_t step = 1; step <= 5; ++step) {
    state.version = state.steps = step;
    save_state(directory.path(), layout(), state, 3);
  }
  const auto file = [&](const char* name) { return checkpoint_directory(directory.path()) / name; };
  EXPECT_FALSE(std::filesystem::exists(file("state.3.safetensors")));
  TrainingState loaded({}, layout());
  const auto loads = [&](std::uint64_t step) {
    ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
    EXPECT_EQ(loaded.steps, step);
  };
  loads(5);
  std::filesystem::resize_file(file("state.safetensors"), 5000);
  loads(4);
  std::filesystem::remove(file("state.safetensors"));  // damaged, and taken away by somebody
  loads(4);
  std::ofstream(file("state.1.safetensors")) << "nonsense";
  loads(3);
  save_state(directory.path(), layout(), state, 2);
  EXPECT_FALSE(std::filesystem::exists(file("state.2.safetensors")));
  std::ofstream(file("state.safetensors")) << "nonsense";
  expect_refusal(Errc::bad_checkpoint, {"state.safetensors", "move them away"},
                 [&] { load_state(directory.path(), layout(), loaded); });
}

// Whatever bit of it the disk changed.
TEST_F(KeptStates, WhoseContributionsCannotBeReadIsPassedOverForTheOneBefore) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  state.version = 8;
  save_state(directory.path(), layout(), state);
  const std::filesystem::path file = directory.path() / "checkpoints" / "state.safetensors";
  const std::string whole = diloco::read_file(file).value();
  const std::size_t begin = whole.find("stored 1 ");
  ASSERT_NE(begin, std::string::npos);
  std::size_t passed_over = 0;
  for (std::size_t at = begin; at < begin + 120; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(file, std::ios::binary) << damaged;
    TrainingState loaded({}, layout());
    EXPECT_TRUE(load_state(directory.path(), layout(), loaded)) << at;
    EXPECT_TRUE(loaded.version == 7 || loaded.version == 8);
    if (loaded.version == 7) ++passed_over;
  }
  EXPECT_GT(passed_over, 20U);
  std::ofstream(file, std::ios::binary) << std::string(whole).replace(begin, 9, "stared 1 ");
  state.version = 9;
  EXPECT_NO_THROW(save_state(directory.path(), layout(), state));
}

TEST_F(KeptStates, TakesThePlaceOfAnEarlierOneOfItsVersion) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  for (std::uint64_t step = 1; step <= 6; ++step) {
    state.version = (step + 1) / 2;  // two of each
    state.steps = step;
    save_state(directory.path(), layout(), state, 2);
  }
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.steps, 6);
  std::ofstream(checkpoint_directory(directory.path()) / "state.safetensors") << "nonsense";
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.steps, 4);
}

}  // namespace
}  // namespace causeway::intra
