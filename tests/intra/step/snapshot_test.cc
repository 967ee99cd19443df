// The part of a state that all regions share, as a file: docs/checkpoints.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "diloco/files/file_io.h"
#include "intra/base/mapped_file.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/state_on_disk.h"

namespace causeway::intra {
namespace {

class SnapshotTest : public StateOnDisk {};

TEST_F(SnapshotTest, BringsAnchorAndMomentumAndDropsTheRest) {
  const TemporaryDirectory directory;
  const TrainingState saved = distinct_state();
  const std::filesystem::path file = directory.path() / "snapshot";
  write_snapshot(file, layout(), saved);
  TrainingState state = distinct_state();
  std::fill(state.anchor.begin(), state.anchor.end(), 0.5F);
  std::fill(state.momentum.begin(), state.momentum.end(), 0.5F);
  state.version = 2;
  adopt_snapshot(StateReader(file), layout(), 7, saved.digest, state);
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

TEST_F(SnapshotTest, IsTakenFromMemoryAsFromItsFile) {
  const TemporaryDirectory directory;
  const TrainingState saved = distinct_state();
  const std::filesystem::path file = directory.path() / "snapshot";
  write_snapshot(file, layout(), saved);
  const MappedFile mapped(file);
  TrainingState state = distinct_state();
  state.anchor.assign(state.anchor.size(), 0.5F);
  adopt_snapshot(StateReader("what came", mapped.bytes()), layout(), 7, saved.digest, state);
  EXPECT_EQ(state.anchor, saved.anchor);
  EXPECT_EQ(state.momentum, saved.momentum);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, mapped.bytes().size() - 1}) {
    expect_refusal(Errc::bad_checkpoint, {"what came"},
                   [&] { StateReader("what came", mapped.bytes().first(size)); });
  }
}

TEST_F(SnapshotTest, WithAnotherDigestThanAnnouncedIsRefused) {
  const TemporaryDirectory directory;
  TrainingState state = distinct_state();
  const std::filesystem::path file = directory.path() / "snapshot";
  write_snapshot(file, layout(), state);
  diloco::Digest other = state.digest;
  other[0] ^= 1;
  expect_refusal(Errc::bad_checkpoint, {"version 7", "digest"},
                 [&] { adopt_snapshot(StateReader(file), layout(), 7, other, state); });
  EXPECT_FALSE(state.intact);
}

// Before it is handed over: what a peer announced, or the disk made of it.
TEST_F(SnapshotTest, IsRecognisedByItsStateAlone) {
  const TemporaryDirectory directory;
  const TrainingState state = distinct_state();
  const std::filesystem::path file = directory.path() / "snapshot";
  write_snapshot(file, layout(), state);
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
