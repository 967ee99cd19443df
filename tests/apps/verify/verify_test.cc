#include "apps/run/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <system_error>

#include <nlohmann/json.hpp>

#include "diloco/files/error.h"
#include "diloco/log/ledger.h"
#include "inter/tls/pki.h"
#include "inter/tls/signature.h"
#include "intra/outer/state_file.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr diloco::Round kRounds = 3;

const diloco::Layout& layout() {
  static const diloco::Layout layout({{"embedding", {64, 128}}, {"head", {64, 64}}, {"norm", {7}}});
  return layout;
}

// What a region of a run of three rounds leaves behind, and how it may differ from what it should
// be.
struct Past {
  std::string name;
  std::string run_id = "run-1";
  diloco::Round rounds = kRounds;
  std::function<void(diloco::CommitRecord&)> decide{};  // the records, before they are kept
  std::function<void(diloco::Round, diloco::Digest&)>
      report{};                                    // states after a round, as an event
  std::function<void(diloco::Applied&)> hold{};    // states, as the ledger has them
  std::function<void(intra::OuterState&)> take{};  // the snapshot
  std::function<void(const std::string&, std::string&)> sign{};  // signatures
  bool own_in_ledger = true;
};

intra::OuterState state_of(diloco::Round version) {
  intra::OuterState state(layout());
  for (std::size_t i = 0; i < state.anchor.size(); ++i) {
    state.anchor[i] = static_cast<float>(version) + static_cast<float>(i) / 8;
    state.momentum[i] = static_cast<float>(version) - static_cast<float>(i);
  }
  state.version = version;
  state.digest = whole_digest(state);
  return state;
}

diloco::CommitRecord record_of(diloco::Round round) {
  return {.run_id = "run-1",
          .round = round,
          .participants = {{.region = "east", .round = round, .weight = 0.5F, .tokens = 10},
                           {.region = "west", .round = round, .weight = 0.5F, .tokens = 10}},
          .state = state_of(round).digest,
          .next_k = 4};
}

class Verify : public testing::Test {
 protected:
  Verify() {
    inter::create_ca(certificates(), "run");
    for (const char* name : {"east", "west"}) inter::add_region(certificates(), name);
  }

  std::filesystem::path certificates() const { return directory_ / "certificates"; }

  std::filesystem::path write(const Past& past) const {
    const std::filesystem::path region = directory_ / past.name;
    std::filesystem::create_directories(region);
    write_ledger(region, past);
    write_events(region, past);
    intra::OuterState snapshot = state_of(kRounds - 1);
    if (past.take) past.take(snapshot);
    intra::save_snapshot(region, layout(), snapshot);
    return region;
  }

  Verification compare(const Past& east, const Past& west) const {
    return verify(write(east), write(west), certificates());
  }

  TemporaryDirectory directory_;

 private:
  void write_ledger(const std::filesystem::path& region, const Past& past) const {
    const inter::SigningKey key(inter::credentials_in(certificates(), past.name).key);
    diloco::Ledger ledger(region / "ledger", [&](const std::string& content) {
      std::string signature = key.sign(content);
      if (past.sign) past.sign(content, signature);
      return signature;
    });
    ledger.set_run_id(past.run_id);
    for (diloco::Round round = 0; round < past.rounds; ++round) {
      diloco::CommitRecord record = record_of(round);
      if (past.decide) past.decide(record);
      diloco::Applied own{.version = round, .state = state_of(round).digest};
      if (past.hold) past.hold(own);
      const std::vector<diloco::LogEntry> entries{{.term = 1, .body = record}};
      ledger.append(entries, past.own_in_ledger ? std::optional(own) : std::nullopt);
    }
  }

  static void write_events(const std::filesystem::path& region, const Past& past) {
    std::ofstream events(region / "events.jsonl");
    for (diloco::Round round = 0; round < past.rounds; ++round) {
      diloco::Digest state = state_of(round + 1).digest;
      if (past.report) past.report(round, state);
      events << nlohmann::json{{"round", round},
                               {"region", past.name},
                               {"participants", nlohmann::json::array()},
                               {"state", diloco::to_hex(state)}}
             << "\n";
    }
  }
};

TEST_F(Verify, EqualRegionsRanOneHistory) {
  const Verification found = compare({.name = "east"}, {.name = "west"});
  EXPECT_TRUE(found.same);
  for (const std::string line :
       {"east: 3 entries, all signed by its certificate", "west: 3 states are the agreed ones",
        "the history is the same in 3 entries, 3 of them rounds",
        "the same state of version 3, the last, by events.jsonl, which is not signed",
        "the snapshots of version 2 are equal bit for bit"}) {
    EXPECT_THAT(found.lines, Contains(line));
  }
}

TEST_F(Verify, WithoutCertificatesItSaysThatNoSignatureIsChecked) {
  const Verification found = verify(write({.name = "east"}), write({.name = "west"}), {});
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, Contains(HasSubstr("signatures are not checked")));
}

// Ledgers of before regions put their own states there.
TEST_F(Verify, StatesThatTheLedgerDoesNotHaveAreSaidToBeUnsigned) {
  const Past west{.name = "west", .own_in_ledger = false};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_TRUE(found.same);
  EXPECT_THAT(
      found.lines,
      Contains("west: 2 states are the agreed ones, 2 of them only by events.jsonl, which is "
               "not signed"));
}

TEST_F(Verify, ARegionThatIsAheadRanTheSameHistory) {
  const Verification found = compare({.name = "east", .rounds = kRounds - 1}, {.name = "west"});
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, Contains("west knows 1 more entries"));
  EXPECT_THAT(found.lines, Not(Contains(HasSubstr("the last"))));
}

TEST_F(Verify, NamesTheRegionAndRoundWhoseReportedStateIsAnother) {
  const Past west{.name = "west",
                  .report =
                      [](diloco::Round round, diloco::Digest& state) {
                        if (round == 1) state[0] ^= 1;
                      },
                  .own_in_ledger = false};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(testing::MatchesRegex(
                               "west: its state of version 2 .* is not the agreed one .*: round 1 "
                               "was not applied as the others did")));
  EXPECT_THAT(found.lines, Contains("east: 3 states are the agreed ones"));
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
}

// It contributed once from a wrong state, and from the right ones since.
TEST_F(Verify, ARegionThatWasHealedRanTheSameHistory) {
  const Past west{.name = "west",
                  .report =
                      [](diloco::Round round, diloco::Digest& state) {
                        if (round == 0) state[0] ^= 1;
                      },
                  .hold =
                      [](diloco::Applied& own) {
                        if (own.version == 1) own.state[0] ^= 1;
                      }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, Contains("west: its state of version 1 was wrong, and was healed"));
  EXPECT_THAT(found.lines, Contains("west: 2 states are the agreed ones"));
}

// After the last round no record says what is agreed.
TEST_F(Verify, NamesTheLastRoundIfItsResultsDiffer) {
  const Past west{.name = "west", .report = [](diloco::Round round, diloco::Digest& state) {
                    if (round + 1 == kRounds) state[0] ^= 1;
                  }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains(testing::MatchesRegex(
                               "another state of version 3, the last, in east .* than in west .*: "
                               "they applied round 2 differently")));
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

TEST_F(Verify, NamesTheFirstSliceInWhichSnapshotsDifferAndWhoseIsWrong) {
  const std::size_t element = layout().find("embedding").offset + 5000;
  const Past west{.name = "west",
                  .take = [&](intra::OuterState& state) { state.anchor.at(element) += 1; }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, Contains("the snapshots of version 2 differ first in anchor, elements "
                                    "4096 to 8191 (embedding)"));
  EXPECT_THAT(found.lines, Contains("west: its snapshot of version 2 is not the agreed state"));
  EXPECT_THAT(found.lines, Not(Contains(HasSubstr("east: its snapshot"))));
}

TEST_F(Verify, NamesMomentumAndVectorsToo) {
  const std::size_t element = layout().find("norm").offset;
  const Past west{.name = "west",
                  .take = [&](intra::OuterState& state) { state.momentum.at(element) += 1; }};
  EXPECT_THAT(compare({.name = "east"}, west).lines,
              Contains("the snapshots of version 2 differ first in momentum, elements 12288 to "
                       "16383 (norm)"));
}

TEST_F(Verify, OfASnapshotOfAnotherVersionItSaysThatNumbersAreNotCompared) {
  const Past west{.name = "west",
                  .take = [](intra::OuterState& state) { state = state_of(kRounds - 2); }};
  const Verification found = compare({.name = "east"}, west);
  EXPECT_TRUE(found.same);
  EXPECT_THAT(found.lines, Contains(HasSubstr("of different versions")));
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
}

// A ledger that another region wrote is not this one's, though the entries are the same.
TEST_F(Verify, ALedgerSignedByAnotherRegionIsNotItsOwn) {
  const std::filesystem::path east = write({.name = "east"}), west = write({.name = "west"});
  std::filesystem::copy_file(east / "ledger" / "records", west / "ledger" / "records",
                             std::filesystem::copy_options::overwrite_existing);
  const Verification found = verify(east, west, certificates());
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines,
              Contains("west: entry 1 (round 0: east west) is not signed by its certificate"));
}

TEST_F(Verify, RegionsOfDifferentRunsAreNotCompared) {
  const Verification found = compare({.name = "east"}, {.name = "west", .run_id = "run-2"});
  EXPECT_FALSE(found.same);
  EXPECT_THAT(found.lines, testing::ElementsAre("different runs: run-1 in east, run-2 in west"));
}

TEST_F(Verify, ADirectoryWithoutALedgerIsRefusedWithWhatToName) {
  const std::filesystem::path east = write({.name = "east"});
  try {
    verify(east, directory_ / "nowhere", {});
    ADD_FAILURE() << "compared with nothing";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), diloco::Errc::lineage);
    EXPECT_THAT(error.what(), HasSubstr("name a region's directory"));
  }
}

}  // namespace
}  // namespace causeway::run
