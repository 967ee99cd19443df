#include "apps/run/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/run/verify/region_ledger.h"
#include "diloco/files/file_io.h"
#include "tests/apps/verify/past.h"

namespace causeway::run {
namespace {

using past::kRounds;
using past::layout;
using past::Past;
using past::state_of;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Verify = past::VerifyTest;
TEST_F(Verify, EqualRegionsRanOneHistory) {
  const Verification found = compare({.name = "east"}, {.name = "west"});
  EXPECT_TRUE(found.verified());
  EXPECT_THAT(found.lines, ElementsAre("east: 3 entries, all signed by its certificate",
                                       "west: 3 entries, all signed by its certificate"));
  EXPECT_THAT(
      found.covered,
      ElementsAre(
          "certificates: " + certificates().string(),
          "states of east: it signed the agreed state of 3 of 3 versions",
          "states of west: it signed the agreed state of 3 of 3 versions",
          "entries: 3, 3 of them rounds; the first 3 are the same in 2 ledgers, signed in "
          "each",
          "the state of version 3, the last: the same, as signed by east, west",
          "snapshot of east: of version 2, which has the agreed state",
          "snapshot of west: of version 2, which has the agreed state",
          "payloads: 0 of 6 are here and are what the records list; the others were not "
          "kept (ledger.keep = \"all\" keeps them)",
          "model of east: there is none (the built-in trainer writes it when the run is over)",
          "model of west: there is none (the built-in trainer writes it when the run is over)"));
}
TEST_F(Verify, WithoutCertificatesNothingIsToldThatOnlyASignatureMakesTrue) {
  const auto wrong = [](diloco::Applied& own) { own.state[0] ^= 1; };
  const Verification found =
      verify({write({.name = "east"}), write({.name = "west", .hold = wrong})}, {});
  EXPECT_TRUE(found.same);
  EXPECT_FALSE(found.complete);
  EXPECT_THAT(found.lines, Contains(HasSubstr("MISSING: signatures are not checked")));
  EXPECT_THAT(found.covered,
              Contains("states of west: not compared, as no signature says which states it had"));
  EXPECT_THAT(found.covered, Contains(HasSubstr("not all are known to be signed")));
  EXPECT_THAT(found.covered, Contains(HasSubstr("the last: not compared")));
}
TEST_F(Verify, ARunsDirectoryStandsForItsRegionsAndBringsItsCertificates) {
  const std::filesystem::path regions = directory_ / "regions";
  std::filesystem::create_directories(regions);
  for (const std::string name : {"east", "west"})
    std::filesystem::rename(write({.name = name}), regions / name);
  const Verification found = verify({directory_ / "."}, {});
  EXPECT_TRUE(found.verified());
  EXPECT_THAT(found.lines, Contains("west: 3 entries, all signed by its certificate"));
  EXPECT_THAT(found.covered, Contains(HasSubstr("which came with the run")));
  EXPECT_EQ(refusal({directory_ / ".", regions / "west"}),
            (regions / "west").string() +
                " was named twice: what is compared with itself is always equal");
}  // Whatever the directory is called.
TEST_F(Verify, ARegionIsTheMemberWhoseDiskItIs) {
  const std::filesystem::path region = directory_ / "elsewhere";
  const inter::SigningKey key(inter::credentials_in(certificates(), "west").key);
  {
    diloco::Ledger ledger(region / "ledger",
                          [&](const std::string& content) { return key.sign(content); });
    const diloco::Membership members{
        {{.region = "east"}, {.region = "west", .incarnation = ledger.incarnation()}}, {}};
    ledger.found("run-1", {.term = 1, .body = members});
  }
  EXPECT_THAT(verify({region}, certificates()).lines,
              Contains("west: 1 entry, all signed by its certificate"));
}  // Whoever can change the ledger may put a certificate of his own beside it.
TEST_F(Verify, ACertificateThatItsAuthorityDidNotIssueShowsNothing) {
  const std::filesystem::path east = write({.name = "east"});
  const std::filesystem::path others = directory_ / "others";
  inter::create_ca(others, "others");
  inter::add_region(others, "east");
  std::filesystem::copy_file(others / "ca.crt", certificates() / "ca.crt",
                             std::filesystem::copy_options::overwrite_existing);
  const Verification found = verify({east}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(HasSubstr("ca.crt (CN = others CA) did not sign ")));
  EXPECT_THAT(found.lines, Not(Contains(HasSubstr("signed by its certificate"))));
}
TEST_F(Verify, AnEmptyLedgerIsRefused) {
  const std::filesystem::path east = write({.name = "east", .rounds = 0});
  EXPECT_THAT(refusal({east}), HasSubstr("has a ledger without entries"));
  EXPECT_THAT(refusal({write({.name = "west"}), east}), HasSubstr("without entries"));
}  // It is not signed, and says what anybody wrote there.
TEST_F(Verify, WhatEventsSayIsNotBelieved) {
  const std::filesystem::path east = write({.name = "east"});
  std::ofstream(east / "events.jsonl")
      << R"({"round": 1, "region": "west", "participants": [], "state": "00"})"
      << "\n";
  const Verification found = verify({east}, certificates());
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, ElementsAre("east: 3 entries, all signed by its certificate"));
}  // A wrong one that was healed looks like this.
TEST_F(Verify, AStateThatWasChangedAfterItWasSignedIsNotTakenForAHealedOne) {
  const std::filesystem::path east = write({.name = "east"}), west = write({.name = "west"});
  const std::filesystem::path records = west / "ledger" / "records";
  std::string bytes = diloco::read_file(records).value();
  const diloco::Digest state = state_of(1).digest;
  const std::size_t last = bytes.rfind(std::string(state.begin(), state.end()));
  bytes[last] ^= 1;  // in own_state of entry 2: after that of the record
  diloco::replace_file(records, bytes, diloco::Durability::visible);
  const Verification found = verify({east, west}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines,
              Contains("west: the state that it contributed from at entry 2 (round 1: east west) "
                       "is not signed by its certificate"));
  EXPECT_THAT(found.lines, Not(Contains(HasSubstr("healed"))));
}
TEST_F(Verify, ARegionThatIsAheadRanTheSameHistory) {
  const Verification found = compare({.name = "east", .rounds = kRounds - 1}, {.name = "west"});
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, Contains("east: its ledger ends 1 entry before that of west"));
}
TEST_F(Verify, SaysThatTheEndOfALedgerIsTorn) {
  const std::filesystem::path east = write({.name = "east"}), west = write({.name = "west"});
  const std::filesystem::path records = west / "ledger" / "records";
  std::filesystem::resize_file(records, std::filesystem::file_size(records) - 1);
  const Verification found = verify({east, west}, certificates());
  EXPECT_FALSE(found.verified());
  EXPECT_THAT(found.lines, Contains(HasSubstr("of its ledger are no whole entry")));
  EXPECT_THAT(found.lines, Contains("west: its ledger ends 1 entry before that of east"));
}
TEST_F(Verify, NamesTheRegionAndRoundWhoseSignedStateIsAnother) {
  const Past west{.name = "west", .hold = [](diloco::Applied& own) {
                    if (own.version >= 1) own.state[0] ^= 1;
                  }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(testing::MatchesRegex(
                               "west: its state of version 1 .* is not the agreed one .*: round 0 "
                               "was not applied as the others did")));
}  // It contributed once from a wrong state, and from the right ones since.
TEST_F(Verify, ARegionThatWasHealedRanTheSameHistory) {
  const Past west{.name = "west", .hold = [](diloco::Applied& own) {
                    if (own.version == 1) own.state[0] ^= 1;
                  }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, Contains("west: its state of version 1 was wrong, and was healed"));
  EXPECT_THAT(found.covered,
              Contains("states of west: it signed the agreed state of 2 of 3 versions"));
}  // After the last round no record says what is agreed.
TEST_F(Verify, NamesTheLastRoundIfItsResultsDiffer) {
  const Past west{.name = "west", .finish = [](diloco::Digest& state) { state[0] ^= 1; }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(testing::MatchesRegex(
                               "another state of version 3, the last, in east .* than in west .*: "
                               "they applied round 2 differently")));
}
TEST_F(Verify, ALastStateThatTheRegionDidNotSignIsNotCompared) {
  const Verification found =
      compare({.name = "east", .finishes = false}, {.name = "west", .finishes = false});
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.covered, Contains("the state of version 3, the last: not compared: no region "
                                      "signed one (it does when the run is over)"));
}

// A region's directory that ends before its own word of the end.
TEST_F(Verify, NamesRecordsThatAreMissingAlthoughEveryRegionLacksThem) {
  const auto write_short = [&](const std::string& name) {
    const std::filesystem::path region = write({.name = name, .snapshot = kRounds});
    const std::filesystem::path records = region / "ledger" / "records";
    const std::string bytes = diloco::read_file(records).value();
    std::size_t last = 0;
    diloco::scan_entries(bytes, "run-1", [&](const auto&, std::size_t offset) { last = offset; });
    std::filesystem::resize_file(records, last);
    return region;
  };
  const Verification found = verify({write_short("east"), write_short("west")}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains("west: its ledger/finished says that it ended at version 3, "
                                    "but its ledger ends at version 2: records are missing"));
  EXPECT_THAT(found.lines, Contains("east: its snapshot is of version 3, but the ledgers end at "
                                    "version 2: records are missing"));
}  // Its snapshot is newer than its ledger was when it was read.
TEST_F(Verify, ARegionThatGoesOnIsNotSaidToLackRecords) {
  const std::filesystem::path east =
      write({.name = "east", .rounds = 2, .finishes = false, .snapshot = kRounds});
  EXPECT_THAT(verify({east}, certificates()).lines, Contains(HasSubstr("records are missing")));
  const auto coordinator = diloco::lock_file(east / "ledger" / "lock");
  ASSERT_TRUE(coordinator);
  const Verification found = verify({east}, certificates());
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.covered,
              Contains("east: its snapshot is of version 3, not compared: the run went on "
                       "meanwhile"));
}
TEST_F(Verify, WhatAnotherRegionSaysOfItsEndIsNotThisOnes) {
  const std::filesystem::path east = write({.name = "east"}), west = write({.name = "west"});
  std::filesystem::copy_file(east / "ledger" / "finished", west / "ledger" / "finished",
                             std::filesystem::copy_options::overwrite_existing);
  const Verification found = verify({east, west}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains("west: its ledger/finished, of version 3, is not signed by its "
                                    "certificate for its ledger"));
}
TEST_F(Verify, ARegionThatSignedNoEndWhereOthersDidIsNamed) {
  const Verification found = compare({.name = "east"}, {.name = "west", .finishes = false});
  EXPECT_TRUE(found.same);
  EXPECT_FALSE(found.complete);
  EXPECT_THAT(found.lines,
              Contains("MISSING: west signed no state of version 3, the last, as east did"));
}
TEST_F(Verify, AMemberWhoseDirectoryIsMissingIsNamed) {
  const std::filesystem::path region = directory_ / "east";
  const inter::SigningKey key(inter::credentials_in(certificates(), "east").key);
  {
    diloco::Ledger ledger(region / "ledger",
                          [&](const std::string& content) { return key.sign(content); });
    ledger.found("run-1", {.term = 1,
                           .body = diloco::Membership{
                               {{.region = "east", .incarnation = ledger.incarnation()},
                                {.region = "north"},
                                {.region = "west", .incarnation = "1"}},
                               {}}});
    ledger.save_raft(1, "", 2, {});
  }
  const Verification found = verify({region}, certificates());
  EXPECT_FALSE(found.verified());
  EXPECT_THAT(found.lines,
              Contains("MISSING: the directory of west, a member: nothing of it was read"));
  EXPECT_THAT(found.covered, Contains("directory of north: not given; it has no vote yet"));
}
TEST_F(Verify, ARegionThatSignedNoneOfItsStatesIsNamed) {
  const Verification found = compare({.name = "east"}, {.name = "west", .holds = false});
  EXPECT_TRUE(found.same);
  EXPECT_FALSE(found.complete);
  EXPECT_THAT(found.lines, Contains("MISSING: west signed none of the 3 states that records say "
                                    "it contributed from"));
}

TEST_F(Verify, NamesTheFirstEntryInWhichLedgersDiffer) {
  const Past west{.name = "west", .decide = [](diloco::CommitRecord& record) {
                    if (record.round >= 1) record.participants.erase(record.participants.begin());
                  }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains("the ledgers differ from entry 2 (round 1: east west) in east "
                                    "and entry 2 (round 1: west) in west on"));
  EXPECT_THAT(found.lines, Contains("west: 3 entries, all signed by its certificate"));
}

TEST_F(Verify, NamesTheFirstEntryWithABadSignature) {
  int signatures = 0;
  const Past west{.name = "west", .sign = [&](const std::string& content, std::string& signature) {
                    const bool of_entry = content.size() == sizeof(diloco::Digest);
                    if (of_entry && ++signatures >= 2) signature[0] ^= 1;
                  }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines,
              Contains("west: entry 2 (round 1: east west) is not signed by its certificate"));
  EXPECT_THAT(found.lines, Contains("east: 3 entries, all signed by its certificate"));
}
TEST_F(Verify, NamesTheEntryWhoseStateHasABadSignature) {
  int signatures = 0;
  const Past west{.name = "west", .sign = [&](const std::string& content, std::string& signature) {
                    const bool of_state = content.size() > sizeof(diloco::Digest);
                    if (of_state && ++signatures == 3) signature.clear();
                  }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines,
              Contains("west: the state that it contributed from at entry 3 (round 2: east west) "
                       "is not signed by its certificate"));
}  // A ledger that another region wrote is not this one's, though the entries are the same.
TEST_F(Verify, ALedgerSignedByAnotherRegionIsNotItsOwn) {
  const std::filesystem::path east = write({.name = "east"}), west = write({.name = "west"});
  std::filesystem::copy_file(east / "ledger" / "records", west / "ledger" / "records",
                             std::filesystem::copy_options::overwrite_existing);
  const Verification found = verify({east, west}, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines,
              Contains("west: entry 1 (round 0: east west) is not signed by its certificate"));
}
TEST_F(Verify, RegionsOfDifferentRunsAreRefused) {
  const auto east = write({.name = "east"}), west = write({.name = "west", .run_id = "run-2"});
  EXPECT_THAT(refusal({east, west}), HasSubstr("is of run run-2, but"));
}  // As one that was started by hand lies: no regions/, and other files beside the regions.
TEST_F(Verify, ARunsDirectoryStandsForTheRegionsInIt) {
  const std::filesystem::path east = write({.name = "east"}), west = write({.name = "west"});
  const std::filesystem::path run = directory_.path();
  EXPECT_THAT(region_directories({run}), testing::ElementsAre(run / "east", run / "west"));
  EXPECT_THAT(verify({run}, certificates()).lines,
              Contains("west: 3 entries, all signed by its certificate"));
  EXPECT_TRUE(stands_for_all_regions(run));
  EXPECT_FALSE(stands_for_all_regions(east)) << "nothing is kept in it for the whole run";

  const std::filesystem::path simulated = run / "simulated";
  std::filesystem::create_directories(simulated / "regions");
  std::filesystem::rename(east, simulated / "regions" / "east");
  std::filesystem::create_directory_symlink("regions/east/ledger", simulated / "ledger");
  EXPECT_THAT(region_directories({simulated}),
              testing::ElementsAre(simulated / "regions" / "east"));
  EXPECT_TRUE(stands_for_all_regions(simulated)) << "its ledger/ is a region's";
}
TEST_F(Verify, ADirectoryWithoutALedgerIsRefusedWithWhatToName) {
  EXPECT_THAT(refusal({write({.name = "east"}), directory_ / "nowhere"}),
              HasSubstr("name a region's directory"));
}
}  // namespace
}  // namespace causeway::run
