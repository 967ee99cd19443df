#include "intra/step/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "intra/outer/state_file.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/state_on_disk.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

class TrainingStateTest : public StateOnDisk {};

TEST_F(TrainingStateTest, ComesBackFromDiskBitForBit) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  save_state(directory.path(), layout(), saved);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  expect_equal(saved, loaded);
}

TEST_F(TrainingStateTest, RemembersWhereWorkBeyondItsContributionBegan) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  saved.mark = saved.anchor;
  save_state(directory.path(), layout(), saved);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  expect_equal(saved, loaded);
}

TEST_F(TrainingStateTest, DoesNotHaveItsParametersTwiceWhereTheyAreTheAnchor) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  saved.params = saved.anchor;
  save_state(directory.path(), layout(), saved);
  EXPECT_FALSE(StateReader(newest_state_file(directory.path())).tensors().has("params"));
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  expect_equal(saved, loaded);
  // Equal as numbers is not enough.
  saved.params[0] = 0.0F;
  saved.anchor[0] = -0.0F;
  saved.digest = whole_digest(saved);
  save_state(directory.path(), layout(), saved);
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_FALSE(std::signbit(loaded.params[0]));
  EXPECT_TRUE(std::signbit(loaded.anchor[0]));
}

TEST_F(TrainingStateTest, ItsOuterFileHasTheHashesThatTheRoundMade) {
  const TemporaryDirectory directory;
  const auto tree_of = [](std::span<const float> span) {
    OuterState::Tree tree{.leaves = diloco::merkle_leaves(span)};
    tree.root = diloco::merkle_root(tree.leaves);
    return tree;
  };
  TrainingState saved = distinct_state(), loaded({}, layout());
  saved.trees = {tree_of(saved.anchor), tree_of(saved.momentum)};
  loaded.trees = saved.trees;
  loaded.trees.anchor.root = {};  // of the state that was here before
  save_state(directory.path(), layout(), saved);
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(snapshot_of(loaded, layout()).tensors[0].hash, std::nullopt) << "of another state";
  // One that is not right makes the file wrong: it is not made again.
  saved.trees.momentum.root = saved.trees.anchor.root;
  save_state(directory.path(), layout(), saved, 1);
  expect_refusal(Errc::bad_checkpoint, {"outer-", "tensor 'momentum'", "damaged"},
                 [&] { load_state(directory.path(), layout(), loaded); });
}

TEST_F(TrainingStateTest, OfAnEarlierVersionHasAnchorAndMomentumInItself) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  saved.in_flight.clear();
  StateImage image = image_of(layout(), saved);
  for (const TensorView& tensor : snapshot_of(saved, layout()).tensors)
    image.tensors.push_back(tensor);
  image.metadata.emplace("in_flight", "");
  std::filesystem::create_directories(checkpoint_directory(directory.path()));
  write_safetensors(newest_state_file(directory.path()), image.tensors, image.metadata);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  expect_equal(saved, loaded);
  ++loaded.version;  // the next one is of this version, and the earlier one stays
  save_state(directory.path(), layout(), loaded);
  std::filesystem::remove(newest_state_file(directory.path()));
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.version, saved.version);
}

// Copied to spare a download, or on a disk that was mounted in the wrong place.
TEST_F(TrainingStateTest, OfAnotherRegionGivesWhatAllRegionsShare) {
  const TemporaryDirectory directory;
  TrainingState theirs = distinct_state();
  theirs.region = "eu";
  theirs.mark = theirs.anchor;
  theirs.confirmed_share = 0.5F;
  save_state(directory.path(), layout(), theirs);
  const test::CapturedLog log;
  TrainingState loaded = distinct_state(), fresh({}, layout());  // nothing of before stays
  loaded.region = "us";
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(log.count("the state of region eu, not of us"), 1U) << log.text();
  for (std::vector<float>* of : {&fresh.params, &fresh.anchor}) *of = theirs.anchor;
  fresh.momentum = theirs.momentum;
  fresh.version = theirs.version;
  fresh.digest = theirs.digest;
  fresh.run_id = theirs.run_id;
  expect_equal(fresh, loaded);

  save_state(directory.path(), layout(), loaded);
  TrainingState again({}, layout());
  again.region = "us";
  ASSERT_TRUE(load_state(directory.path(), layout(), again));
  expect_equal(fresh, again);
  EXPECT_EQ(log.count("not of us"), 1U) << "it is its own now";
}

// Earlier versions wrote the region only in what is in flight.
TEST_F(TrainingStateTest, OfAnEarlierVersionIsItsRegionsAsFarAsItSays) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  const auto save = [&] {
    StateImage image = image_of(layout(), saved);
    image.metadata.erase("region");
    save_image(directory.path(), std::move(image), snapshot_of(saved, layout()));
  };
  const auto load_as = [&](const std::string& region) {
    TrainingState loaded({}, layout());
    loaded.region = region;
    EXPECT_TRUE(load_state(directory.path(), layout(), loaded));
    return loaded;
  };
  save();
  TrainingState loaded = load_as("eu");
  expect_equal(saved, loaded);
  EXPECT_TRUE(load_as("us").in_flight.empty());
  saved.in_flight.clear();
  save();
  loaded = load_as("us");
  expect_equal(saved, loaded);
}

TEST_F(TrainingStateTest, NamesNoFileElsewhere) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  StateImage image = image_of(layout(), state);
  image.metadata.emplace("in_flight", "");
  std::filesystem::create_directories(checkpoint_directory(directory.path()));
  for (const char* name :
       {"", "../outer-7-0123456789abcdef.safetensors", "outer-7-0123456789abcdef.safetensors/..",
        "outer--0123456789abcdef.safetensors", "outer-7-0123456789abcde.safetensors",
        "outer-7-0123456789abcdeg.safetensors", "outer-7.safetensors"}) {
    image.metadata["outer"] = name;
    write_safetensors(newest_state_file(directory.path()), image.tensors, image.metadata);
    expect_refusal(Errc::bad_checkpoint, {"names no file that may hold its anchor"},
                   [&] { load_state(directory.path(), layout(), state); });
  }
}

// Nor does its file have it; where it is kept later, it begins with zeros.
TEST_F(TrainingStateTest, WithoutResidualAndMomentsComesBackToWhoKeepsThemAndWhoDoesNot) {
  const Kept none{.residual = false, .moments = false};
  const TemporaryDirectory directory;
  TrainingState saved({}, layout(), none);
  std::iota(saved.params.begin(), saved.params.end(), 1.0F);
  saved.digest = whole_digest(saved);
  save_state(directory.path(), layout(), saved);
  TrainingState same({}, layout(), none), more = distinct_state();
  ASSERT_TRUE(load_state(directory.path(), layout(), same));
  expect_equal(same, saved);
  EXPECT_TRUE(same.residual.empty());
  ASSERT_TRUE(load_state(directory.path(), layout(), more));
  EXPECT_EQ(more.params, saved.params);
  EXPECT_THAT(more.residual, testing::Each(0.0F));
  EXPECT_THAT(more.optimizer.first_moment(), testing::Each(0.0F));
}

TEST_F(TrainingStateTest, OfWhoKeptMoreIsTakenByWhoKeepsLess) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  save_state(directory.path(), layout(), saved);
  TrainingState less({}, layout(), {.residual = false, .moments = false});
  ASSERT_TRUE(load_state(directory.path(), layout(), less));
  EXPECT_EQ(less.anchor, saved.anchor);
  EXPECT_TRUE(less.residual.empty());
}

TEST_F(TrainingStateTest, IsNotThereBeforeTheFirstSave) {
  const TemporaryDirectory directory;
  TrainingState state({}, layout());
  EXPECT_FALSE(load_state(directory.path(), layout(), state));
}

TEST_F(TrainingStateTest, KnowsTheDataThatItWasTrainedOnAsFarAsTheyWereRead) {
  const diloco::DataDigest sample{.sample = {1}};
  const diloco::DataDigest whole{.sample = {1}, .whole = diloco::Digest{2}};
  const diloco::DataDigest other_sample{.sample = {3}};
  const TemporaryDirectory directory;
  TrainingState state = distinct_state(), loaded({}, layout());
  state.trained_on.reset();
  const auto after = [&state](const diloco::DataDigest& data) {
    state.note_data(data);
    return *state.trained_on;
  };
  EXPECT_EQ(after(sample), sample);
  save_state(directory.path(), layout(), state);
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  EXPECT_EQ(loaded.trained_on, sample);
  EXPECT_EQ(after(whole), whole);
  EXPECT_EQ(after(sample), whole) << "not all is read again, and it may be the same";
  EXPECT_EQ(after(other_sample), other_sample);
}

TEST_F(TrainingStateTest, OfAnotherModelIsRefused) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  const diloco::Layout other({{"a", {65, 64}}, {"x", {7}}});
  TrainingState loaded({}, other);
  expect_refusal(Errc::bad_checkpoint, {"state.safetensors", "another model"},
                 [&] { load_state(directory.path(), other, loaded); });
}

TEST_F(TrainingStateTest, WithoutItsOuterFileIsRefusedByName) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  const std::filesystem::path outer = outer_of_newest(directory);
  std::filesystem::remove(outer);
  expect_refusal(Errc::bad_checkpoint,
                 {"state.safetensors", outer.filename(), "missing", "move them away"},
                 [&] { load_state(directory.path(), layout(), state); });
  std::ofstream(outer) << "nonsense";
  expect_refusal(Errc::bad_checkpoint, {outer.filename()},
                 [&] { load_state(directory.path(), layout(), state); });
}

TEST_F(TrainingStateTest, WithoutItsContributionIsRefused) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  const auto file = contributions(directory).at(0);
  std::ofstream(file) << "something else";
  expect_refusal(Errc::bad_checkpoint, {"contribution-"},
                 [&] { load_state(directory.path(), layout(), state); });
  std::filesystem::remove(file);
  expect_refusal(Errc::bad_checkpoint, {"contribution-", "missing"},
                 [&] { load_state(directory.path(), layout(), state); });
}

TEST_F(TrainingStateTest, ARefusalNamesTheStateThatLacksItsContribution) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  ++state.version;
  save_state(directory.path(), layout(), state);
  std::filesystem::remove(directory.path() / "checkpoints" / "state.safetensors");
  std::filesystem::remove(contributions(directory).at(0));
  expect_refusal(Errc::bad_checkpoint, {"missing; remove", "/state.1.safetensors to start"},
                 [&] { load_state(directory.path(), layout(), state); });
}

}  // namespace
}  // namespace causeway::intra
