// What a spool that lacks room asks for, and what gives way in it.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/exchange.h"
#include "diloco/round/leader.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

// Region a of four, whose spool holds 1000 bytes: 250 for each region.
class SmallSpool : public ::testing::Test {
 protected:
  static ProtocolOptions options() {
    ProtocolOptions options = options_of_a();
    options.spool_bytes = 1000;
    return options;
  }

  SmallSpool() {
    region_.agreement.start(Time{0});
    region_.worker.attach({}, std::nullopt);
    for (const char* peer : {"b", "c", "d"})
      region_.peers.set_up(peer, std::string(peer) + "'s disk");
    region_.spool.set_room(1000, {});
  }
  Contribution hear(const std::string& region, std::uint64_t bytes, std::uint32_t part = 0,
                    const std::string& teller = {}) {
    Contribution made = made_by(region);
    made.part = part;
    made.payload.size_bytes = bytes;
    made.payload.hash[1] = static_cast<std::uint8_t>(part);
    exchange_.hear(teller.empty() ? region : teller, {made, 0, false}, Time{0});
    return made;
  }
  // What it asks for now, as region and size.
  std::map<std::string, std::uint64_t> asked() {
    catch_up_.fetch(Time{0});
    std::map<std::string, std::uint64_t> asked;
    for (const Action& action : region_.out.take()) {
      if (const auto* fetch = std::get_if<FetchBlob>(&action))
        asked[std::string(1, static_cast<char>(fetch->blob.hash[0]))] += fetch->blob.size_bytes;
      if (const auto* remove = std::get_if<RemoveBlob>(&action)) removed_.insert(remove->blob);
    }
    return asked;
  }
  using Asked = std::map<std::string, std::uint64_t>;

  Region region_{options(), state_of_a({"a", "b", "c", "d"})};
  Beginning beginning_{region_};
  Leader leader_{region_, beginning_};
  CatchUp catch_up_{region_};
  Exchange exchange_{region_, leader_, catch_up_};
  std::set<inter::BlobId> removed_;
};

// Nor is anything thrown away for it.
TEST_F(SmallSpool, GetsWhatFitsBesideWhatNeverDoes) {
  hear("b", inter::kBlobBytesMax);
  const Contribution begun = hear("c", 50);
  hear("d", 60);
  region_.spool.set_room(950, {begun.payload});
  EXPECT_EQ(asked(), (Asked{{"c", 50}, {"d", 60}}));
  EXPECT_TRUE(removed_.empty());
}

TEST_F(SmallSpool, TakesNoMoreOfARegionThanItsShare) {
  hear("b", 999);
  hear("c", 250);
  hear("d", 200);
  hear("d", 60, 1);
  EXPECT_EQ(asked(), (Asked{{"c", 250}, {"d", 200}}));
}

TEST_F(SmallSpool, IsNotFilledInTheNameOfAnother) {
  hear("c", 240, 0, "b");
  hear("d", 240, 1, "b");
  hear("d", 100);
  region_.spool.set_room(110, {});
  EXPECT_EQ(asked(), (Asked{{"d", 100}}));
  hear("c", 20);
  EXPECT_EQ(region_.contributions.find({"c", 0, 0})->payload.size_bytes, 20U) << "its own word";
}

// Its bytes never come, and it began when there was room.
TEST_F(SmallSpool, GivesUpWhatIsMuchLargerForWhatFindsNoRoom) {
  const Contribution large = hear("b", 240);
  hear("c", 50);
  hear("d", 60);
  region_.spool.set_room(20, {large.payload});
  EXPECT_EQ(asked(), (Asked{{"c", 50}, {"d", 60}}));
  EXPECT_EQ(removed_, std::set{large.payload});
}

TEST_F(SmallSpool, GivesUpNothingForWhatIsAboutAsLarge) {
  const Contribution begun = hear("b", 100);
  hear("c", 60);
  region_.spool.set_room(20, {begun.payload});
  EXPECT_EQ(asked(), (Asked{{"b", 100}}));
  EXPECT_TRUE(removed_.empty());
}

// All of it was pushed while there was room.
TEST_F(SmallSpool, LetsGoOfWhatIsBeyondAShareAndNeverSaysToHoldIt) {
  const Contribution large = hear("b", 900);
  exchange_.on_arrived(large.payload, Time{0});
  EXPECT_FALSE(region_.holds(large));
  EXPECT_EQ(region_.held_bytes(large), 0U);
  region_.spool.set_room(100, {});
  EXPECT_EQ(asked(), Asked{});
  EXPECT_TRUE(region_.spool.holds(large.payload)) << "as long as nobody needs its room";
  hear("c", 120);
  asked();
  EXPECT_EQ(removed_, std::set{large.payload});
}

// It would be waited for, and others pass by.
TEST_F(SmallSpool, AdoptsNoSnapshotThatNeverFits) {
  region_.worker.distrust_initial_state();
  for (const char* peer : {"b", "c", "d"}) {
    Status status;
    status.snapshot = {.version = 0,
                       .state = {},
                       .blob = {.hash = {1}, .size_bytes = *peer == 'b' ? 2000U : 500U}};
    status.applied = Applied{};
    region_.peers.hear(peer, status);
  }
  catch_up_.choose_target();
  ASSERT_TRUE(region_.spool.target());
  EXPECT_EQ(region_.spool.target()->blob.size_bytes, 500U);
}

// What its worker applies next is nowhere. A snapshot leads past that.
TEST(SpoolOfALeap, LetsGoOfRoundsBeforeTheSnapshotThatIsOnItsWay) {
  constexpr Round kRounds = 4;
  std::vector<inter::BlobId> payloads;
  PersistentState state = state_of_a({"a", "b", "c", "d"}, kRounds, [&payloads](Round round) {
    payloads.push_back({.hash = {static_cast<std::uint8_t>(round + 1)}, .size_bytes = 200});
    return std::vector<Participant>{
        {.region = "b", .round = round, .weight = 1, .payload = payloads.back()}};
  });
  state.blobs.insert(payloads.begin(), payloads.end());
  state.blobs.erase(payloads[1]);
  ProtocolOptions options = options_of_a();
  options.spool_bytes = 1000;
  Region region(options, state);
  CatchUp catch_up(region);
  region.agreement.start(Time{0});
  region.worker.attach({.version = 1}, std::nullopt);
  Status status;
  status.version = status.payloads_from = kRounds;
  status.applied = Applied{};
  status.snapshot = {.version = kRounds - 1, .state = {}, .blob = {.hash = {9}, .size_bytes = 500}};
  region.peers.set_up("b", "b's disk");
  region.peers.hear("b", status);
  region.spool.set_room(400, {});
  catch_up.choose_target();
  ASSERT_TRUE(region.spool.target());
  catch_up.fetch(Time{0});
  std::set<inter::BlobId> removed;
  for (const Action& action : region.out.take()) {
    if (const auto* remove = std::get_if<RemoveBlob>(&action)) removed.insert(remove->blob);
  }
  EXPECT_TRUE(removed.contains(payloads[0]));
  EXPECT_FALSE(removed.contains(payloads[3])) << "it is applied next";
}

}  // namespace
}  // namespace causeway::diloco
