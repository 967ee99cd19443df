#include "diloco/coordinator/region_directory.h"

#include <fcntl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/coordinator/coordinator.h"
#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/ledger/ledger_files.h"
#include "diloco/worker/last_word.h"
#include "inter/blob/spool_files.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

using testing::LoneRegion;

// What opening the region's directory comes to, with `change` made to its options.
template <typename Change>
std::optional<RunOutcome> open(const LoneRegion& region, Change change) {
  CoordinatorOptions options = region.options_;
  change(options);
  return RegionDirectory(options).open();
}

TEST(RegionDirectory, AFounderIsTheOnlyOneWhoVotesAtFirst) {
  LoneRegion region;
  EXPECT_FALSE(region.opened_);
  const Membership& membership = region.driver_->protocol().membership();
  EXPECT_EQ(membership.voters(), 1);
  EXPECT_TRUE(membership.votes("a", region.directory_.ledger().incarnation()));
}

TEST(RegionDirectory, FoundedAgainBeforeItBeganGoesOnAndIsNeverForkedFromAnother) {
  LoneRegion region;
  region.directory_.close();
  EXPECT_FALSE(open(region, [](CoordinatorOptions&) {}));
  const auto outcome =
      open(region, [](CoordinatorOptions& options) { options.start = Start::fork; });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 4);
  EXPECT_NE(outcome->message.find("already holds run"), std::string::npos);
}

// It was for a worker of the life before.
TEST(RegionDirectory, ALastWordThatLiesThereIsTakenBackAtAStart) {
  LoneRegion region;
  region.directory_.close();
  leave_last_word(region.options_.directory, {.run_id = "run", .reason = "removed"});
  EXPECT_FALSE(open(region, [](CoordinatorOptions&) {}));
  EXPECT_FALSE(last_word(region.options_.directory));
}

TEST(RegionDirectory, IsResumedWithWhatWasSaved) {
  LoneRegion region;
  region.begin();
  const std::string run_id = region.directory_.ledger().run_id();
  const Term term = region.driver_->protocol().raft().term();
  region.directory_.close();
  CoordinatorOptions options = region.options_;
  options.start = Start::resume;
  RegionDirectory resumed(options);
  EXPECT_FALSE(resumed.open());
  EXPECT_EQ(resumed.state().run_id, run_id);
  EXPECT_EQ(resumed.state().raft.term, term);
}

// A certificate that was renewed has the same key. After years all signatures take minutes.
TEST(RegionDirectory, ARenewedCertificateDoesNotLetAllSignaturesBeCheckedAgain) {
  LoneRegion region;
  region.begin();
  region.directory_.close();
  CoordinatorOptions options = region.options_;
  options.start = Start::resume;
  const auto noted_by_a_start = [&options] {
    EXPECT_FALSE(RegionDirectory(options).open());
    return read_file(options.directory / "ledger" / "checked-signatures").value_or("");
  };
  const std::filesystem::path certificate = options.mesh.credentials.certificate;
  const std::string noted = noted_by_a_start();
  const std::string before = read_file(certificate).value_or("");
  inter::renew_region(certificate.parent_path(), "a");
  EXPECT_NE(read_file(certificate), before);
  EXPECT_EQ(noted_by_a_start(), noted);
}

TEST(RegionDirectory, SaysWhichSettingsChangedSinceItWasLastOpened) {
  const LoneRegion region;
  const auto told = [&](const std::string& settings) {
    const test::CapturedLog log;
    CoordinatorOptions options = region.options_;
    options.directory = region.root_.path() / "changing";
    options.start = std::filesystem::exists(options.directory) ? Start::resume : Start::found;
    options.shared_config = settings;
    EXPECT_FALSE(RegionDirectory(options).open());
    return log.text();
  };
  EXPECT_EQ(told("outer.lr = 0.7\ntrain.k = 30\n").find("other settings"), std::string::npos);
  EXPECT_EQ(told("outer.lr = 0.7\ntrain.k = 30\n").find("other settings"), std::string::npos);
  const std::string changed = told("outer.lr = 1\ntrain.k = 30\n");
  EXPECT_NE(
      changed.find("other settings than this region had before: outer.lr = 0.7 before, 1 now"),
      std::string::npos)
      << changed;
  EXPECT_EQ(told("outer.lr = 1\ntrain.k = 30\n").find("other settings"), std::string::npos);
}

// The rounds are made anew, and end with another state.
TEST(RegionDirectory, WhatWasSignedOfTheEndIsVoidOnceRoundsAreTakenBack) {
  LoneRegion region;
  region.begin();
  CommitRecord record;
  record.run_id = region.directory_.ledger().run_id();
  record.round = 5;
  record.withdrawn.emplace_back().region = "a";
  const auto finished_after_taking_back_from_5 = [&](Round version) {
    region.directory_.ledger().save_finished(version, Digest{7});
    region.directory_.append({{{.term = 1, .body = record}}}, {});
    return region.directory_.ledger().finished();
  };
  EXPECT_EQ(finished_after_taking_back_from_5(5), (Applied{5, Digest{7}}));
  EXPECT_EQ(finished_after_taking_back_from_5(6), std::nullopt);
  EXPECT_EQ(finished_after_taking_back_from_5(9), std::nullopt);
}

// A run that has a record, which is resumed with these settings.
class SettingsOfARun : public ::testing::Test {
 protected:
  SettingsOfARun() {
    region_.begin();
    CommitRecord record;
    record.run_id = region_.directory_.ledger().run_id();
    region_.directory_.append({{{.term = 1, .body = record}}}, Contribution());
    region_.directory_.close();
    EXPECT_FALSE(resumed(kBefore));
  }
  std::optional<RunOutcome> resumed(const std::string& settings) const {
    return open(region_, [&](CoordinatorOptions& options) {
      options.start = Start::resume;
      options.shared_config = settings;
    });
  }
  std::filesystem::path file() const { return region_.options_.directory / "settings.txt"; }

  static constexpr const char* kBefore = "outer.lr = 0.7\nsync.fragments = 2\ntrain.k = 30\n";
  LoneRegion region_;
};

TEST_F(SettingsOfARun, ThatDecideWhatARecordDoesStayAsTheyWere) {
  const std::string kept = read_file(file()).value();
  const auto refusal = resumed("outer.lr = 1\nsync.fragments = 4\ntrain.k = 60\n");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->exit_code, 2);
  EXPECT_NE(refusal->message.find("outer.lr = 0.7 before, 1 now; sync.fragments = 2 before, 4 now"),
            std::string::npos)
      << refusal->message;
  EXPECT_NE(refusal->message.find("Put back the values from before"), std::string::npos);
  EXPECT_NE(refusal->message.find("--fork"), std::string::npos);
  EXPECT_EQ(refusal->message.find("train.k"), std::string::npos) << "it may change";
  EXPECT_EQ(read_file(file()), kept) << "with them it can still be resumed";
  EXPECT_FALSE(resumed(kBefore));
}

TEST_F(SettingsOfARun, MayChangeWhereNoRecordReadsThem) {
  EXPECT_FALSE(resumed("outer.lr = 0.7\nsync.fragments = 2\ntrain.k = 60\n"));
  EXPECT_FALSE(resumed("outer.lr = 0.7\nouter.mean = \"all\"\nsync.fragments = 2\n"))
      << "an earlier version of the program did not have this key";
}

TEST_F(SettingsOfARun, AreNotComparedWithDamagedOnes) {
  const std::string whole = read_file(file()).value();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    replace_file(file(), bytes, Durability::visible);
    const test::CapturedLog log;
    EXPECT_FALSE(resumed(kBefore)) << at;
    EXPECT_TRUE(log.has("settings.txt is damaged")) << at;
    EXPECT_EQ(read_file(file()), whole) << at;
  }
}

TEST_F(SettingsOfARun, AreReadAsEarlierVersionsWroteThem) {
  replace_file(file(), std::string(kBefore), Durability::visible);
  EXPECT_TRUE(resumed("outer.lr = 1\nsync.fragments = 2\ntrain.k = 30\n"));
  EXPECT_FALSE(resumed(kBefore));
}

TEST(RegionDirectory, WithoutARunIsNotResumed) {
  const LoneRegion region;
  const auto outcome = open(region, [&](CoordinatorOptions& options) {
    options.start = Start::resume;
    options.directory = region.root_.path() / "empty";
  });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 4);
  EXPECT_NE(outcome->message.find("holds no run"), std::string::npos);
}

TEST(RegionDirectory, OptionsThatCannotWorkAreRefusedBeforeAnythingIsWritten) {
  const LoneRegion region;
  const std::filesystem::path untouched = region.root_.path() / "untouched";
  const auto few = open(region, [&](CoordinatorOptions& options) {
    options.directory = untouched;
    options.protocol.contributions_min = 2;
  });
  const auto stranger = open(region, [&](CoordinatorOptions& options) {
    options.directory = untouched;
    options.region = "b";
  });
  ASSERT_TRUE(few && stranger);
  EXPECT_EQ(few->exit_code, 2);
  EXPECT_EQ(stranger->exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(untouched));
}

TEST(RegionDirectory, OfAnotherRegionIsRefused) {
  LoneRegion region;
  Membership membership;
  membership.members = {{.region = "b", .incarnation = region.directory_.ledger().incarnation()}};
  EXPECT_THROW(region.directory_.refuse_if_anothers(membership), std::system_error);
  membership.members.front().region = "a";
  EXPECT_NO_THROW(region.directory_.refuse_if_anothers(membership));
}

TEST(RegionDirectory, FillsInWhatOnlyThisDiskKnows) {
  const LoneRegion region;
  const ProtocolOptions options = region.directory_.protocol_options();
  EXPECT_EQ(options.self, "a");
  EXPECT_EQ(options.heartbeat, options.election / 4);
  EXPECT_EQ(options.pace.k, 4);
  EXPECT_FALSE(options.witness);
}

// The hashes do not cover them, and whoever compares regions does not accept a ledger without them.
TEST(RegionDirectory, MakesSignaturesAnewThatTheDiskChanged) {
  LoneRegion region;
  region.begin();
  CommitRecord record;
  record.run_id = region.directory_.ledger().run_id();
  region.directory_.append({{{.term = 1, .body = record}}}, Contribution());
  region.directory_.close();
  CoordinatorOptions options = region.options_;
  options.start = Start::resume;
  const std::filesystem::path ledger = options.directory / "ledger", records = ledger / "records";
  const inter::VerifyingKey key(options.mesh.credentials.certificate);
  const auto check = [&](const std::string& content, const std::string& signature) {
    return key.verify(content, signature);
  };
  const auto tells = [&] {
    const test::CapturedLog log;
    EXPECT_FALSE(RegionDirectory(options).open());
    const std::vector<LedgerEntry> entries = read_ledger(records, read_run_id(ledger));
    for (const LedgerEntry& entry : entries) EXPECT_TRUE(is_signed(entry, check));
    EXPECT_EQ(entries.back().own, (Applied{0, Digest{}})) << "it is what the run agreed on";
    return log.has("were not this region's and were made anew");
  };
  EXPECT_FALSE(tells());
  const std::string whole = read_file(records).value();
  const std::vector<LedgerEntry> entries = read_ledger(records, read_run_id(ledger));
  for (const std::string& signature :
       {entries.front().signature, entries.back().signature, entries.back().own_signature}) {
    std::string bytes = whole;
    bytes[bytes.find(signature)] ^= 1;
    replace_file(records, bytes, Durability::visible);
    EXPECT_TRUE(tells());
    EXPECT_EQ(read_file(records), whole) << "Ed25519 signs the same in the same way";
    EXPECT_FALSE(tells());
  }
}

TEST(RegionDirectory, KeepsPayloadsThatCountedWhereEverythingIsKept) {
  const LoneRegion region;
  const auto remove = [](RegionDirectory& directory, const std::string& content, bool listed) {
    const inter::BlobId blob = directory.spool().put(std::as_bytes(std::span(content)));
    const std::string name = directory.spool().path(blob).filename();
    directory.carry_out(RemoveBlob{blob, listed});
    EXPECT_FALSE(directory.spool().has(blob));
    return name;
  };
  CoordinatorOptions options = region.options_;
  options.directory = region.root_.path() / "keeps";
  options.kept_config = "[run]\n";
  RegionDirectory keeps(options);
  EXPECT_FALSE(keeps.open());
  const std::string listed = remove(keeps, "counted", true);
  const std::string other = remove(keeps, "did not", false);
  const std::filesystem::path archive = archive_directory(options.directory);
  EXPECT_EQ(read_file(archive / listed), "counted");
  EXPECT_FALSE(std::filesystem::exists(archive / other));
  EXPECT_EQ(read_file(archived_config(options.directory)), "[run]\n");
}

TEST(RegionDirectory, KeepsNothingByDefault) {
  LoneRegion region;
  const std::string content = "counted";
  const auto blob = region.directory_.spool().put(std::as_bytes(std::span(content)));
  region.directory_.carry_out(RemoveBlob{blob, true});
  EXPECT_FALSE(has_archive(region.options_.directory));
}

TEST(RegionDirectory, SaysThatTheDiskHasNoRoomForAnyPayloadThatIsWanted) {
  const LoneRegion region;
  const inter::BlobId small{.hash = {1}, .size_bytes = 1};
  const inter::BlobId large{.hash = {2}, .size_bytes = std::uint64_t{1} << 60};
  EXPECT_EQ(region.directory_.lacking_room({}), "");
  EXPECT_EQ(region.directory_.lacking_room({large, small}), "");
  EXPECT_THAT(region.directory_.lacking_room({large}),
              ::testing::MatchesRegex("; the disk of its directory has [0-9]+ MB free, and at "
                                      "least 1152921504607 MB are needed: make room on it"));
}

// A run that goes on lets go of the snapshot while its ledger is checked.
TEST(RegionDirectory, AForkBeginsWithTheSnapshotThatWasChecked) {
  const LoneRegion region;
  const std::filesystem::path file = region.options_.directory / "snapshot-of-another";
  const std::string text = "a state";
  const inter::BlobId blob = inter::identify(std::as_bytes(std::span(text)));
  const auto fork_of = [&](const inter::BlobId& wanted) {
    replace_file(file, text, Durability::on_disk);
    auto held = std::make_shared<std::optional<MappedBytes>>(
        MappedBytes(::open(file.c_str(), O_RDONLY | O_CLOEXEC), text.size()));
    std::filesystem::remove(file);
    return Fork{.origin = {.run_id = "another", .blob = wanted},
                .snapshot = file,
                .content = std::move(held)};
  };
  const std::filesystem::path spool = region.options_.directory / "spool";
  const Fork fork = fork_of(blob);
  copy_origin(fork, spool);
  EXPECT_EQ(read_file(inter::blob_path(spool, blob)), text);
  EXPECT_FALSE(*fork.content) << "the disk has the file no longer than needed";

  inter::BlobId another = blob;
  another.hash[0] ^= 1;
  EXPECT_THROW(copy_origin(fork_of(another), spool), std::system_error);
}

TEST(RegionDirectory, ProbesTheDiskAndLeavesNothing) {
  const LoneRegion region;
  EXPECT_TRUE(region.directory_.takes_bytes(1));
  EXPECT_FALSE(region.directory_.takes_bytes(std::uint64_t{1} << 60)) << "no disk has as much";
  EXPECT_FALSE(std::filesystem::exists(region.options_.directory / "probe"));
}

}  // namespace
}  // namespace causeway::diloco
