#include "intra/step/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "diloco/files/file_io.h"
#include "intra/base/mapped_file.h"
#include "intra/outer/state_file.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"
#include "tests/support/captured_log.h"
#include "tests/support/process_limits.h"

namespace causeway::intra {
namespace {

const diloco::Layout& layout() {
  static const diloco::Layout small({{"a", {64, 65}}, {"x", {7}}});
  return small;
}

InFlight contribution(diloco::Round round, std::uint32_t part, int content) {
  InFlight own;
  const std::vector<std::byte> bytes(100, static_cast<std::byte>(content));
  own.payload = OwnPayload(diloco::SealedBytes(bytes));
  own.contribution = {.run_id = "0123456789abcdef",
                      .region = "eu",
                      .round = round,
                      .part = part,
                      .tokens = 1ULL << 50,
                      .steps = 25,
                      .compute_s = 1.0 / 7,
                      .data_cursor = 99,
                      .delta_norm = 0.1,
                      .error_norm = 1e-300,
                      .payload = {}};
  return own;
}

// Every number different.
TrainingState distinct_state() {
  TrainingState state({}, layout());
  float next = 1;
  for (const std::span<float> part :
       {std::span(state.params), std::span(state.anchor), std::span(state.momentum),
        std::span(state.residual), state.optimizer.first_moment(),
        state.optimizer.second_moment()}) {
    std::iota(part.begin(), part.end(), next);
    next += static_cast<float>(part.size());
  }
  state.version = 7;
  state.run_id = "0123456789abcdef";
  state.work = {.data_cursor = (1ULL << 60) + 1, .steps = 3, .compute_s = 1e-3};
  state.optimizer_steps = 73;
  state.in_flight = {contribution(5, 1, 42), contribution(7, 0, 43)};
  state.in_flight[1].stored = true;
  state.steps = 75;
  state.tokens = 1ULL << 61;
  state.compute_s = 1.0 / 3;
  state.wait_s = 2.0 / 3;
  state.trained_on = diloco::DataDigest{.sample = {1, 2}, .whole = diloco::Digest{3, 4}};
  state.digest = whole_digest(state);
  return state;
}

void expect_equal(TrainingState& a, TrainingState& b) {
  EXPECT_EQ(a.params, b.params);
  EXPECT_EQ(a.anchor, b.anchor);
  EXPECT_EQ(a.momentum, b.momentum);
  EXPECT_EQ(a.residual, b.residual);
  EXPECT_THAT(a.optimizer.first_moment(), testing::ElementsAreArray(b.optimizer.first_moment()));
  EXPECT_THAT(a.optimizer.second_moment(), testing::ElementsAreArray(b.optimizer.second_moment()));
  EXPECT_EQ(a.optimizer_steps, b.optimizer_steps);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_EQ(a.run_id, b.run_id);
  EXPECT_EQ(a.mark, b.mark);
  EXPECT_EQ(a.confirmed_share, b.confirmed_share);
  EXPECT_EQ(a.work.data_cursor, b.work.data_cursor);
  EXPECT_EQ(a.work.steps, b.work.steps);
  EXPECT_EQ(a.work.compute_s, b.work.compute_s);
  ASSERT_EQ(a.in_flight.size(), b.in_flight.size());
  for (std::size_t i = 0; i < a.in_flight.size(); ++i) {
    EXPECT_EQ(serialize(a.in_flight[i].identified()), serialize(b.in_flight[i].identified()));
    EXPECT_TRUE(std::ranges::equal(a.in_flight[i].payload.bytes(), b.in_flight[i].payload.bytes()));
    EXPECT_EQ(a.in_flight[i].stored, b.in_flight[i].stored);
  }
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.compute_s, b.compute_s);
  EXPECT_EQ(a.wait_s, b.wait_s);
  EXPECT_EQ(a.trained_on, b.trained_on);
}

std::vector<std::filesystem::path> saved_as(const std::string& begin,
                                            const TemporaryDirectory& directory) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(checkpoint_directory(directory.path())))
    if (entry.path().filename().string().starts_with(begin)) found.push_back(entry.path());
  return found;
}

std::vector<std::filesystem::path> contributions(const TemporaryDirectory& directory) {
  return saved_as("contribution-", directory);
}

TEST(TrainingState, ComesBackFromDiskBitForBit) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  save_state(directory.path(), layout(), saved);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  expect_equal(saved, loaded);
}

TEST(TrainingState, RemembersWhereWorkBeyondItsContributionBegan) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  saved.mark = saved.anchor;
  save_state(directory.path(), layout(), saved);
  TrainingState loaded({}, layout());
  ASSERT_TRUE(load_state(directory.path(), layout(), loaded));
  expect_equal(saved, loaded);
}

TEST(TrainingState, DoesNotHaveItsParametersTwiceWhereTheyAreTheAnchor) {
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

TEST(TrainingState, ItsOuterFileHasTheHashesThatTheRoundMade) {
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

TEST(TrainingState, OfAnEarlierVersionHasAnchorAndMomentumInItself) {
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
TEST(TrainingState, OfAnotherRegionGivesWhatAllRegionsShare) {
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
TEST(TrainingState, OfAnEarlierVersionIsItsRegionsAsFarAsItSays) {
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

std::filesystem::path outer_of_newest(const TemporaryDirectory& directory) {
  return open_state(newest_state_file(directory.path())).outer.file();
}

void damage(const std::filesystem::path& file) {
  std::string bytes = diloco::read_file(file).value();
  bytes.back() ^= 1;
  diloco::replace_file(file, bytes, diloco::Durability::visible);
}

std::size_t outer_files(const TemporaryDirectory& directory) {
  return saved_as("outer-", directory).size();
}

TEST(TrainingState, EachThatIsKeptHasItsOwnAnchorAndMomentum) {
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
TEST(TrainingState, TwoOfOneVersionDoNotShareTheirAnchor) {
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
TEST(TrainingState, WhatAStateThatCannotBeReadNamesIsKept) {
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
TEST(TrainingState, ADiskThatIsFullAtAnyByteCostsNoStateThatIsKept) {
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

TEST(TrainingState, WithoutItsOuterFileIsRefusedByName) {
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

TEST(TrainingState, NamesNoFileElsewhere) {
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
TEST(TrainingState, WithoutResidualAndMomentsComesBackToWhoKeepsThemAndWhoDoesNot) {
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

TEST(TrainingState, OfWhoKeptMoreIsTakenByWhoKeepsLess) {
  const TemporaryDirectory directory;
  TrainingState saved = distinct_state();
  save_state(directory.path(), layout(), saved);
  TrainingState less({}, layout(), {.residual = false, .moments = false});
  ASSERT_TRUE(load_state(directory.path(), layout(), less));
  EXPECT_EQ(less.anchor, saved.anchor);
  EXPECT_TRUE(less.residual.empty());
}

TEST(TrainingState, IsNotThereBeforeTheFirstSave) {
  const TemporaryDirectory directory;
  TrainingState state({}, layout());
  EXPECT_FALSE(load_state(directory.path(), layout(), state));
}

TEST(TrainingState, KeepsTheContributionsOfTheStatesThatAreKept) {
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

TEST(TrainingState, ADiskThatRefusesAgainAndAgainCostsNoStateThatIsKept) {
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
TEST(TrainingState, NoTwoFilesShareTheirBlocks) {
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

TEST(TrainingState, ACounterThatTheDiskChangedIsNotBelieved) {
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

TEST(TrainingState, KnowsTheDataThatItWasTrainedOnAsFarAsTheyWereRead) {
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

// A worker that is killed while it writes the next one must find the only good one.
TEST(TrainingState, TheNextOneTakesThePlaceOfTheDamagedOneAndNotOfTheGoodOneBefore) {
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

TEST(TrainingState, ComesFromTheNewestStateThatIsWhole) {
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
TEST(TrainingState, WhoseContributionsCannotBeReadIsPassedOverForTheOneBefore) {
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

TEST(TrainingState, TakesThePlaceOfAnEarlierOneOfItsVersion) {
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

TEST(TrainingState, OfAnotherModelIsRefused) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_state(directory.path(), layout(), state);
  const diloco::Layout other({{"a", {65, 64}}, {"x", {7}}});
  TrainingState loaded({}, other);
  expect_refusal(Errc::bad_checkpoint, {"state.safetensors", "another model"},
                 [&] { load_state(directory.path(), other, loaded); });
}

TEST(TrainingState, WithoutItsContributionIsRefused) {
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

TEST(TrainingState, ARefusalNamesTheStateThatLacksItsContribution) {
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

TEST(Snapshot, BringsAnchorAndMomentumAndDropsTheRest) {
  const TemporaryDirectory directory;
  const TrainingState saved = distinct_state();
  save_snapshot(directory.path(), layout(), saved);
  TrainingState state = distinct_state();
  std::fill(state.anchor.begin(), state.anchor.end(), 0.5F);
  std::fill(state.momentum.begin(), state.momentum.end(), 0.5F);
  state.version = 2;
  adopt_snapshot(StateReader(snapshot_file(directory.path())), layout(), 7, saved.digest, state);
  EXPECT_EQ(state.anchor, saved.anchor);
  EXPECT_EQ(state.params, saved.anchor);
  EXPECT_EQ(state.momentum, saved.momentum);
  EXPECT_EQ(state.digest, saved.digest);
  EXPECT_THAT(state.residual, testing::Each(0.0F));
  EXPECT_EQ(state.version, 7);
  EXPECT_EQ(state.work.steps, 0);
  EXPECT_EQ(state.in_flight.size(), 2) << "they may be listed all the same";
  for (const InFlight& own : state.in_flight) EXPECT_TRUE(own.payload.empty());
  EXPECT_EQ(state.optimizer_steps, 73) << "Adam's moments are the region's own and stay";
}

TEST(Snapshot, IsTakenFromMemoryAsFromItsFile) {
  const TemporaryDirectory directory;
  const TrainingState saved = distinct_state();
  save_snapshot(directory.path(), layout(), saved);
  const MappedFile file(snapshot_file(directory.path()));
  TrainingState state = distinct_state();
  state.anchor.assign(state.anchor.size(), 0.5F);
  adopt_snapshot(StateReader("what came", file.bytes()), layout(), 7, saved.digest, state);
  EXPECT_EQ(state.anchor, saved.anchor);
  EXPECT_EQ(state.momentum, saved.momentum);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, file.bytes().size() - 1}) {
    expect_refusal(Errc::bad_checkpoint, {"what came"},
                   [&] { StateReader("what came", file.bytes().first(size)); });
  }
}

TEST(Snapshot, WithAnotherDigestThanAnnouncedIsRefused) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  save_snapshot(directory.path(), layout(), state);
  diloco::Digest other = state.digest;
  other[0] ^= 1;
  expect_refusal(Errc::bad_checkpoint, {"version 7", "digest"}, [&] {
    adopt_snapshot(StateReader(snapshot_file(directory.path())), layout(), 7, other, state);
  });
  EXPECT_FALSE(state.intact);
}

// Before it is handed over: what a peer announced, or the disk made of it.
TEST(Snapshot, IsRecognisedByItsStateAlone) {
  const TemporaryDirectory directory;
  const TrainingState state = distinct_state();
  save_snapshot(directory.path(), layout(), state);
  const std::filesystem::path file = snapshot_file(directory.path());
  EXPECT_EQ(wrong_snapshot(file, state.digest), "");
  diloco::Digest other = state.digest;
  other[0] ^= 1;
  EXPECT_THAT(wrong_snapshot(file, other), testing::HasSubstr("holds another state"));
  const std::string content = diloco::read_file(file).value();
  for (const std::size_t at : {std::size_t{20}, content.size() - 1, content.size() / 2}) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_NE(wrong_snapshot(file, state.digest), "") << at;
  }
  // Without the zeros at its end a tensor has the same digest, and fits no worker.
  OuterState shorter(layout());
  shorter.anchor.assign(diloco::kLeafElements, 0.0F);
  shorter.momentum = shorter.anchor;
  const diloco::Digest root = diloco::merkle_root(diloco::merkle_leaves(shorter.anchor));
  shorter.anchor.resize(diloco::kLeafElements - 1);
  write_snapshot(file, layout(), shorter);
  EXPECT_THAT(wrong_snapshot(file, diloco::state_digest(root, root)),
              testing::HasSubstr("not padded to whole leaves"));
  std::ofstream(file, std::ios::binary) << "payload of somebody";
  EXPECT_THAT(wrong_snapshot(file, state.digest), testing::HasSubstr("is no snapshot"));
  // A header whose reading would fill the memory.
  const std::uint64_t length = 20'000'000;
  std::ofstream huge(file, std::ios::binary);
  huge.write(reinterpret_cast<const char*>(&length), sizeof length);
  huge << std::string(length, '[');
  huge.close();
  EXPECT_THAT(wrong_snapshot(file, state.digest), testing::HasSubstr("20000000 bytes"));
}

}  // namespace
}  // namespace causeway::intra
