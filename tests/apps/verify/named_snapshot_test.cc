#include "apps/run/verify/named_snapshot.h"

#include <algorithm>

#include "diloco/files/file_io.h"
#include "inter/blob/spool.h"
#include "tests/apps/verify/past.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;
using past::kRounds;
using past::Past;

constexpr std::uint64_t kSpoolBytes = 1U << 30;

class NamedSnapshotTest : public past::VerifyTest {
 protected:
  // Of a region whose ledger/snapshot has the state of `claimed`, and whose blob is that of `held`.
  fs::path region_with(diloco::Round claimed, diloco::Round held, bool finishes = true) const {
    fs::remove_all(directory_ / "east");
    fs::path region = write({.name = "east", .finishes = finishes, .snapshot = held});
    point(region, {.version = claimed,
                   .state = past::state_of(claimed).digest,
                   .blob = spool_snapshot(region)});
    return region;
  }

  static inter::BlobId spool_snapshot(const fs::path& region) {
    const std::string bytes = diloco::read_file(intra::snapshot_file(region)).value();
    return inter::Spool(region / "spool", kSpoolBytes).put(std::as_bytes(std::span(bytes)));
  }

  // By way of a ledger of its own, for that of a past region cannot be opened.
  static void point(const fs::path& region, const diloco::Snapshot& snapshot) {
    const fs::path elsewhere = region / "elsewhere";
    diloco::Ledger(elsewhere).save(snapshot);
    fs::rename(elsewhere / "snapshot", region / "ledger" / "snapshot");
    fs::remove_all(elsewhere);
  }

  std::string refusal_of(const fs::path& region, const fs::path& certificates) const {
    try {
      read_named_snapshot(region, certificates);
    } catch (const std::system_error& error) {
      return intra::message_of(error);
    }
    return {};
  }
  std::string refusal_of(const fs::path& region) const {
    return refusal_of(region, certificates());
  }
};

using NamedSnapshots = NamedSnapshotTest;

#define EXPECT_REFUSED(text, words) \
  EXPECT_NE((text).find(words), std::string::npos) << "said: " << (text)

TEST_F(NamedSnapshots, AreTheStatesThatTheRecordsName) {
  const fs::path region = region_with(kRounds - 1, kRounds - 1);
  const NamedSnapshot named = read_named_snapshot(region, certificates());
  EXPECT_EQ(named.snapshot.version, kRounds - 1);
  EXPECT_EQ(named.ledger.name, "east");
  EXPECT_TRUE(fs::exists(named.file));
}

// A run that goes on has a newer one before a long ledger is checked.
TEST_F(NamedSnapshots, StayWhatTheyAreWhileTheRunReplacesThem) {
  const fs::path region = region_with(kRounds - 1, kRounds - 1);
  const std::string pointer = diloco::read_file(region / "ledger" / "snapshot").value();
  const std::string content = diloco::read_file(intra::snapshot_file(region)).value();
  const NamedSnapshot named = read_named_snapshot(region, certificates());
  {
    inter::Spool spool(region / "spool", kSpoolBytes);
    spool.remove(named.snapshot.blob);
    const std::string newer(content.size(), 'n');
    spool.put(std::as_bytes(std::span(newer)));
  }
  fs::remove(region / "ledger" / "snapshot");
  EXPECT_FALSE(fs::exists(named.file));
  EXPECT_EQ(named.pointer, pointer);
  EXPECT_TRUE(std::ranges::equal(named.content.bytes(), std::as_bytes(std::span(content))));
}

TEST_F(NamedSnapshots, OfTheLastVersionAreWhatTheRegionSignedAtItsEnd) {
  EXPECT_EQ(refusal_of(region_with(kRounds, kRounds)), "");
}

TEST_F(NamedSnapshots, OfALastVersionThatNobodySignedAreRefused) {
  EXPECT_REFUSED(refusal_of(region_with(kRounds, kRounds, false)), "nothing that east signed says");
  const fs::path later = region_with(kRounds + 1, kRounds + 1);
  EXPECT_REFUSED(refusal_of(later), "nothing that east signed says");
}

// What an attacker's run left, whose hashes are right.
TEST_F(NamedSnapshots, OfAnotherRunAreRefused) {
  const fs::path region = write({.name = "east", .take = [](intra::OuterState& state) {
                                   state.anchor[7] += 1;
                                   state.digest = whole_digest(state);
                                 }});
  intra::OuterState forged = past::state_of(kRounds - 1);
  forged.anchor[7] += 1;
  point(region, {kRounds - 1, whole_digest(forged), spool_snapshot(region)});
  EXPECT_REFUSED(refusal_of(region), "is not the state that the signed ledger has for it");
}

// The pointer says what the ledger says, and leads to other bytes.
TEST_F(NamedSnapshots, WithOtherContentThanTheyNameAreRefused) {
  EXPECT_REFUSED(refusal_of(region_with(kRounds - 1, kRounds - 2)), "is not the state");
  const fs::path region = region_with(kRounds - 1, kRounds - 1);
  const fs::path file = read_named_snapshot(region, certificates()).file;
  std::string bytes = diloco::read_file(file).value();
  bytes.back() ^= 1;
  diloco::replace_file(file, bytes, diloco::Durability::visible);
  EXPECT_REFUSED(refusal_of(region), "is damaged");
  fs::remove(file);
  EXPECT_REFUSED(refusal_of(region), "does not hold the snapshot");
}

TEST_F(NamedSnapshots, AreNotGuessedWhereNothingNamesThem) {
  const fs::path region = region_with(kRounds - 1, kRounds - 1);
  const fs::path pointer = region / "ledger" / "snapshot";
  diloco::replace_file(pointer, std::string("random"), diloco::Durability::visible);
  EXPECT_REFUSED(refusal_of(region), "damaged");
  diloco::replace_file(pointer, std::string(), diloco::Durability::visible);
  EXPECT_REFUSED(refusal_of(region), "damaged");
  fs::remove(pointer);
  EXPECT_REFUSED(refusal_of(region), "has no snapshot yet");
}

TEST_F(NamedSnapshots, AreRefusedWhereTheLedgerIsNotSigned) {
  const fs::path region = region_with(kRounds - 1, kRounds - 1);
  EXPECT_REFUSED(refusal_of(region, {}), "there are no certificates");
  const fs::path foreign = directory_ / "foreign";
  inter::create_ca(foreign, "another");
  inter::add_region(foreign, "east");
  EXPECT_REFUSED(refusal_of(region, foreign), "is not signed by its certificate");
}

TEST_F(NamedSnapshots, OfARunAreTheNewestOfItsRegions) {
  const fs::path run = directory_ / "run";
  for (const char* name : {"east", "west"}) {
    const diloco::Round version = name[0] == 'e' ? 1 : 2;
    const fs::path region = write({.name = name, .snapshot = version});
    point(region, {version, past::state_of(version).digest, spool_snapshot(region)});
    fs::create_directories(run / "regions");
    fs::rename(region, run / "regions" / name);
  }
  EXPECT_EQ(region_with_newest_snapshot(run), run / "regions" / "west");
}

}  // namespace
}  // namespace causeway::run
