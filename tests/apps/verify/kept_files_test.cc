// Snapshots, training states and payloads that regions keep beside their ledgers.
#include "apps/run/verify/kept_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/verify/verify.h"
#include "diloco/files/archive.h"
#include "diloco/files/file_io.h"
#include "inter/blob/spool_files.h"
#include "tests/apps/verify/past.h"

namespace causeway::run {
namespace {

using past::kRounds;
using past::layout;
using past::Past;
using past::state_of;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using KeptFilesOfRegions = past::VerifyTest;

TEST_F(KeptFilesOfRegions, TheSnapshotOfTheLastVersionIsComparedToo) {
  const auto change = [](intra::OuterState& state) { state.anchor[3] += 1; };
  const Past east{.name = "east", .snapshot = kRounds};
  EXPECT_THAT(compare(east, {.name = "west"}).covered,
              Contains("snapshot of east: of version 3, which has the agreed state"));
  const Past changed{.name = "changed", .take = change, .snapshot = kRounds};
  inter::add_region(certificates(), "changed");
  const Verification found = verify({write(changed)}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains("changed: its snapshot of version 3 is not the agreed state"));
}

TEST_F(KeptFilesOfRegions, CountsThePayloadsThatAreKeptAndNamesADamagedOne) {
  const std::string content = "a payload";
  const inter::BlobId id{diloco::tree_hash(std::as_bytes(std::span(content))), content.size()};
  const Past past{.name = "east", .decide = [&](diloco::CommitRecord& record) {
                    for (auto& participant : record.participants) participant.payload = id;
                  }};
  const std::filesystem::path east = write(past);
  diloco::open_archive(east, "");
  const std::filesystem::path file = inter::blob_path(diloco::archive_directory(east), id);
  diloco::replace_file(file, content, diloco::Durability::visible);
  EXPECT_THAT(verify({east}, certificates()).covered,
              Contains(HasSubstr("payloads: 6 of 6 are here and are what the records list")));
  diloco::replace_file(file, "a pbyload", diloco::Durability::visible);
  const Verification found = verify({east}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(HasSubstr("the payload of east in round 0: " + file.string() +
                                              " is damaged")));
}

TEST_F(KeptFilesOfRegions, NamesADamagedCopyAlthoughAnotherIsGood) {
  const std::string content = "a payload";
  const inter::BlobId id{diloco::tree_hash(std::as_bytes(std::span(content))), content.size()};
  const auto list = [&](diloco::CommitRecord& record) {
    for (auto& participant : record.participants) participant.payload = id;
  };
  const std::filesystem::path east = write({.name = "east", .decide = list});
  const std::filesystem::path west = write({.name = "west", .decide = list});
  for (const auto& region : {east, west}) {
    diloco::open_archive(region, "");
    diloco::replace_file(inter::blob_path(diloco::archive_directory(region), id),
                         region == west ? "a pbyload" : content, diloco::Durability::visible);
  }
  const Verification found = verify({east, west}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(HasSubstr("another copy is good")));
  EXPECT_THAT(found.covered, Contains(HasSubstr("payloads: 6 of 6 are here")));
}

TEST_F(KeptFilesOfRegions, APayloadThatIsGoneFromAnArchiveIsMissing) {
  const std::filesystem::path east = write({.name = "east"});
  diloco::open_archive(east, "");
  const Verification found = verify({east}, certificates());
  EXPECT_THAT(found.lines, Contains("MISSING: 6 payloads although ledger.keep = \"all\" was set: "
                                    "the payload of east in round 0 is the first"));
}

// What a worker would go on from.
TEST_F(KeptFilesOfRegions, TrainingStatesAreReadToo) {
  const std::filesystem::path east = write({.name = "east"});
  const auto save = [&](diloco::Round version, float change) {
    intra::OuterState state = state_of(version);
    state.anchor[3] += change;
    state.digest = whole_digest(state);
    intra::save_image(east, image_of(state, layout(), {}, {}), snapshot_of(state, layout()));
  };
  save(2, 0);
  EXPECT_THAT(verify({east}, certificates()).covered,
              Contains("state files of east: 1 of 1 have the agreed state of their version"));
  save(2, 1);
  Verification found = verify({east}, certificates());
  EXPECT_THAT(found.lines,
              Contains(HasSubstr("state.safetensors is not the agreed state of version 2")));
  EXPECT_THAT(found.covered,
              Contains("state files of east: 0 of 1 have the agreed state of their version"));
  save(3, 0);
  std::filesystem::remove(east / "ledger" / "finished");
  found = verify({east}, certificates());
  EXPECT_THAT(found.covered,
              Contains("state files of east: 0 of 1 have the agreed state of their "
                       "version; 1 of the last version, of which no state is signed"));
  const std::filesystem::path file = intra::checkpoint_directory(east) / "state.safetensors";
  std::string bytes = diloco::read_file(file).value();
  bytes.back() ^= 1;
  diloco::replace_file(file, bytes, diloco::Durability::visible);
  EXPECT_THAT(verify({east}, certificates()).lines, Contains(HasSubstr("does not match its hash")));
}

TEST_F(KeptFilesOfRegions, TheSnapshotThatOthersWouldBeGivenIsTheAgreedState) {
  const diloco::Snapshot other{.version = 1, .state = {}, .blob = {}};
  EXPECT_THAT(verify({write({.name = "east", .offered = other})}, certificates()).lines,
              Contains("east: its ledger/snapshot names another state of version 1 than the agreed "
                       "one"));
  // The description is right, and the blob is the state of another version.
  const std::filesystem::path west = write({.name = "west"});
  const std::string content = diloco::read_file(intra::snapshot_file(west)).value();
  const diloco::Snapshot forged{
      .version = 1,
      .state = state_of(1).digest,
      .blob = {diloco::tree_hash(std::as_bytes(std::span(content))), content.size()}};
  std::filesystem::remove_all(west);
  write({.name = "west", .offered = forged});
  std::filesystem::create_directories(west / "spool");
  diloco::replace_file(inter::blob_path(west / "spool", forged.blob), content,
                       diloco::Durability::visible);
  EXPECT_THAT(verify({west}, certificates()).lines,
              Contains(HasSubstr("is not the state of version 1 that its ledger/snapshot names")));
}

TEST_F(KeptFilesOfRegions, NamesTheFirstSliceInWhichSnapshotsDifferAndWhoseIsWrong) {
  const std::size_t element = layout().find("embedding").offset + 5000;
  const Past west{.name = "west",
                  .take = [&](intra::OuterState& state) { state.anchor.at(element) += 1; }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(
      found.lines,
      Contains("the snapshots of version 2 in east and west differ first in anchor, elements "
               "4096 to 8191 (embedding)"));
  EXPECT_THAT(found.lines, Contains("west: its snapshot of version 2 is not the agreed state"));
  EXPECT_THAT(found.lines, Not(Contains(HasSubstr("east: its snapshot"))));
}

TEST_F(KeptFilesOfRegions, NamesMomentumAndVectorsToo) {
  const std::size_t element = layout().find("norm").offset;
  const Past west{.name = "west",
                  .take = [&](intra::OuterState& state) { state.momentum.at(element) += 1; }};
  EXPECT_THAT(
      compare({.name = "east"}, west).lines,
      Contains(
          "the snapshots of version 2 in east and west differ first in momentum, elements 12288 to "
          "16383 (norm)"));
}

}  // namespace
}  // namespace causeway::run
