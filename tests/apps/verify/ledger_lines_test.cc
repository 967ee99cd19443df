#include "apps/run/verify/ledger_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"

namespace causeway::run {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Two regions found a run; a third one joins, contributes late, and is removed.
RegionLedger eventful_ledger() {
  const diloco::Member east{.region = "east", .address = "host:1", .incarnation = "e"};
  const diloco::Member west{.region = "west", .address = "host:2"};
  const diloco::Member south{.region = "south"};
  diloco::Member votes = west, moved = east;
  votes.incarnation = "w";
  moved.incarnation = "e2";
  const diloco::CommitRecord first{
      .run_id = "run",
      .round = 0,
      .participants = {{.region = "east", .round = 0, .weight = 1, .tokens = 1000}},
      .skip_momentum = true,
      .next_k = 5,
      .next_grace_ms = 12'000,
      .standings = {{"east", 1, 5}, {"west", 0.5F, 5}}};
  diloco::CommitRecord second = first;
  second.round = 1;
  second.skip_momentum = false;
  second.participants.front().round = 1;
  second.participants.push_back({.region = "west", .round = 0, .part = 1, .weight = 0.25F});
  RegionLedger ledger{.directory = {}, .name = "east", .run_id = "run", .entries = {}};
  const auto add = [&](diloco::Term term, auto body) {
    ledger.entries.emplace_back().entry = {.term = term, .body = body};
  };
  add(1, diloco::Membership{{east, west}, {}});
  add(2, diloco::LogEntry{}.body);
  add(2, diloco::Membership{{east, votes}, {}});
  add(2, first);
  add(2, diloco::Membership{{moved, south, votes}, {}});
  add(3, second);
  add(3, diloco::Membership{{moved, votes}, {}});
  return ledger;
}

TEST(LedgerLines, TellElectionsMembersAndRounds) {
  EXPECT_THAT(
      ledger_lines(eventful_ledger(), {}, {}),
      ElementsAre("entry 1, term 1, the run begins with east (votes), west (no vote yet)",
                  "entry 2, term 2, a new leader was elected",
                  "entry 3, term 2, members: west votes from now on",
                  "entry 4, term 2, round 0: east 1; without west; momentum left as it was",
                  "entry 5, term 2, members: the vote of east goes to its new disk, new: south (no "
                  "vote yet)",
                  "entry 6, term 3, round 1: east 1, west 0.25 (late, of round 0) (part 1)",
                  "entry 7, term 3, members: south was removed"));
}

TEST(LedgerLines, OfOneRoundTellAllAboutIt) {
  const auto lines =
      ledger_lines(eventful_ledger(), {{0, {{"east", {.delta = 2.5, .error = 0.5}}}}}, 0);
  EXPECT_THAT(lines, Contains(HasSubstr("east 1: 1,000 tokens")));
  EXPECT_THAT(lines,
              Contains("    norm 2.5, dropped by compression 0.5 (reported by it, not signed)"));
  EXPECT_THAT(lines,
              Contains("  next round: east (liveness 1, 5 steps), west (liveness 0.5, 5 steps)"));
  EXPECT_THAT(lines, Contains("  next round: 5 steps, waits for the last regions up to 12 s"));
}

inter::BlobId blob(std::uint8_t name, std::uint64_t size_bytes) {
  inter::BlobId blob{.hash = {}, .size_bytes = size_bytes};
  blob.hash.fill(name);
  return blob;
}

// Its round is sharded, and the next one is.
RegionLedger sharded_ledger() {
  diloco::Digest whole{};
  whole.fill(0xaa);
  const diloco::CommitRecord record{.run_id = "run",
                                    .round = 0,
                                    .participants = {{.region = "east",
                                                      .weight = 1,
                                                      .payload = blob(0xbb, 5000),
                                                      .whole = whole}},
                                    .skip_momentum = true,
                                    .next_sharded = true,
                                    .sums = {blob(1, 2000), blob(2, 3000)}};
  RegionLedger ledger{.directory = {}, .name = "east", .run_id = "run", .entries = {}};
  ledger.entries.emplace_back().entry = {.term = 1, .body = record};
  return ledger;
}

std::string hex(const char* byte) {
  std::string text;
  for (int i = 0; i < 32; ++i) text += byte;
  return text;
}

TEST(LedgerLines, TellThatARoundWasSharded) {
  EXPECT_THAT(
      ledger_lines(sharded_ledger(), {}, {}),
      ElementsAre("entry 1, term 1, round 0: east 1; as the sums of 2 shards; momentum left "
                  "as it was"));
  const auto lines = ledger_lines(sharded_ledger(), {}, 0);
  EXPECT_THAT(lines, Contains(HasSubstr("payload " + hex("aa") + " in shards " + hex("bb") +
                                        " of 5.00 kB")));
  EXPECT_THAT(lines, Contains("  sum of shard 0: " + hex("01") + " of 2.00 kB"));
  EXPECT_THAT(lines, Contains("  sum of shard 1: " + hex("02") + " of 3.00 kB"));
  EXPECT_THAT(lines, Contains("  next round: in shards"));
}

TEST(LedgerLines, TellSumsAsJsonWhereThereAreSome) {
  const nlohmann::json json = ledger_json(sharded_ledger(), {}, {})["entries"][0];
  EXPECT_EQ(json["contributions"][0]["whole"], hex("aa"));
  EXPECT_EQ(json["contributions"][0]["payload"], hex("bb"));
  EXPECT_EQ(json["sums"], (nlohmann::json{{{"payload", hex("01")}, {"payload_bytes", 2000}},
                                          {{"payload", hex("02")}, {"payload_bytes", 3000}}}));
  EXPECT_EQ(json["next_sharded"], true);
  const nlohmann::json full = ledger_json(eventful_ledger(), {}, {})["entries"][3];
  EXPECT_FALSE(full.contains("sums"));
  EXPECT_FALSE(full.contains("next_sharded"));
}

TEST(LedgerLines, OfARoundThatIsNotThereAreRefused) {
  try {
    ledger_lines(eventful_ledger(), {}, 2);
    ADD_FAILURE() << "told of a round that is not there";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "--round 2: the ledger has rounds 0 to 1");
  }
}

TEST(LedgerLines, AreThereAsJsonToo) {
  const nlohmann::json json = ledger_json(eventful_ledger(), {}, {});
  EXPECT_EQ(json["run_id"], "run");
  ASSERT_EQ(json["entries"].size(), 7U);
  EXPECT_EQ(json["entries"][1]["kind"], "leader");
  EXPECT_EQ(json["entries"][2]["members"][1]["votes"], true);
  EXPECT_EQ(json["entries"][5]["contributions"][1]["weight"], 0.25);
  EXPECT_EQ(json["entries"][5]["next_grace_s"], 12.0);
  EXPECT_EQ(ledger_json(eventful_ledger(), {}, 1)["entries"].size(), 1U);
}

}  // namespace
}  // namespace causeway::run
