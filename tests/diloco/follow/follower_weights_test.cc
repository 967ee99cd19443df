// What those get that want a run's weights alone: images of snapshots, and patches between them.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <gmock/gmock.h>

#include "diloco/follow/weights_shelf.h"
#include "tests/diloco/follow/follower_server_fixture.h"

namespace causeway::diloco {
namespace {

class FollowerWeights : public FollowerServerTest {
 protected:
  void add_snapshot(Round version, const std::string& content) {
    const Snapshot snapshot{version,
                            {static_cast<std::uint8_t>(version)},
                            spool_.put(std::as_bytes(std::span(content)))};
    ledger_.save(snapshot);
  }
  FollowerAnswer ask_weights(FollowerLink& link, std::optional<inter::BlobId> held = {},
                             Round at_least = 0) {
    return run(link.ask({.first = at_least, .weights = true, .held = held}));
  }
  std::string fetched(FollowerLink& link, const inter::BlobId& blob) {
    if (!run(link.fetch(blob, received_))) return "not there";
    const auto bytes = received_.read(blob, 0, blob.size_bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

TEST_F(FollowerWeights, WhoWantsWeightsIsToldOfThemUnderASignature) {
  const auto link = open();
  EXPECT_TRUE(ask_weights(*link).weights.empty()) << "there is no snapshot";
  add_snapshot(4, "four");
  const FollowerAnswer answer = ask_weights(*link);
  EXPECT_EQ(answer.run_id, "run-1");
  EXPECT_EQ(answer.settings, "train.k = 4\n");
  EXPECT_TRUE(answer.entries.empty());
  ASSERT_EQ(answer.weights.size(), 1U);
  const SignedWeights& four = answer.weights[0];
  EXPECT_EQ(four.version, 4U);
  EXPECT_EQ(four.state, Digest{4});
  EXPECT_EQ(answer.patch, std::nullopt);
  const inter::VerifyingKey key(answer.certificate, "a", context("reader"));
  EXPECT_TRUE(key.verify(signed_content("run-1", four), four.signature));
  EXPECT_FALSE(key.verify(signed_content("run-2", four), four.signature));
  EXPECT_EQ(fetched(*link, four.image), "image of four");
}

TEST_F(FollowerWeights, APatchLeadsFromTheImageThatIsHeld) {
  const auto link = open();
  add_snapshot(4, "four");
  const inter::BlobId four = ask_weights(*link).weights.back().image;
  add_snapshot(6, "six");
  const FollowerAnswer answer = ask_weights(*link, four);
  ASSERT_EQ(answer.weights.size(), 2U);
  EXPECT_EQ(answer.weights.back().version, 6U);
  EXPECT_EQ(answer.settings, "") << "it was told";
  ASSERT_TRUE(answer.patch);
  EXPECT_EQ(fetched(*link, *answer.patch), "image of four -> image of six");
  EXPECT_EQ(ask_weights(*link, four).patch, answer.patch) << "it is made once";
  EXPECT_EQ(ask_weights(*link, payload_).patch, std::nullopt) << "what was never here";
}

TEST_F(FollowerWeights, WhoWaitsForWeightsIsToldOfTheVersionThatIsDue) {
  const auto link = open();
  add_snapshot(4, "four");
  const inter::BlobId four = ask_weights(*link).weights.back().image;
  auto answer = begin(link->ask({.first = 6, .wait = true, .weights = true, .held = four}));
  for (const Round version : {5, 6}) {
    io_.restart();
    io_.poll();
    EXPECT_FALSE(answer->ended);
    add_snapshot(version, std::to_string(version));
    server_->tell();
  }
  EXPECT_EQ(end(answer).weights.back().version, 6U);
}

TEST_F(FollowerWeights, ARunThatWentBackSaysNothingOfWhatIsVoid) {
  const auto link = open();
  for (const Round version : {4, 5, 6}) {
    add_snapshot(version, std::to_string(version));
    ask_weights(*link);
  }
  const inter::BlobId six = ask_weights(*link).weights.back().image;
  add_snapshot(5, "another five");
  const FollowerAnswer answer =
      run(link->ask({.first = 7, .wait = true, .weights = true, .held = six}));
  ASSERT_EQ(answer.weights.size(), 2U);
  EXPECT_EQ(answer.weights[0].version, 4U);
  EXPECT_EQ(answer.weights[1].version, 5U);
  EXPECT_TRUE(answer.patch);
}

TEST_F(FollowerWeights, TheImageOfWhoWaitsForLongIsKept) {
  const auto link = open();
  add_snapshot(1, "first");
  const inter::BlobId held = ask_weights(*link).weights.back().image;
  auto answer = begin(link->ask({.first = 30, .wait = true, .weights = true, .held = held}));
  const auto other = open("other");
  for (Round version = 2; version <= 30; ++version) {
    add_snapshot(version, "version " + std::to_string(version));
    server_->tell();
    ask_weights(*other);  // so that each is made
  }
  EXPECT_TRUE(end(answer).patch);
}

// Each is as large as the model.
TEST_F(FollowerWeights, FewImagesAreKeptTheOneThatIsHeldAmongThem) {
  const auto link = open();
  add_snapshot(1, "first");
  const inter::BlobId held = ask_weights(*link).weights.back().image;
  for (Round version = 2; version < 50; ++version) {
    add_snapshot(version, "version " + std::to_string(version));
    EXPECT_TRUE(ask_weights(*link, held).patch) << version;
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path() / "weights"))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_LE(files, 12U);
  EXPECT_EQ(ask_weights(*link, held).weights.size(), 32U);
}

TEST_F(FollowerWeights, TheRunsDiskKeepsRoomForTheRun) {
  WeightsShelf shelf(directory_.path(), {copy_with("image of "), patch_of_both}, {});
  const Snapshot huge{5, {}, {.hash = {9}, .size_bytes = inter::kBlobBytesMax}};
  try {
    shelf.take("run-1", huge, "not looked at");
    ADD_FAILURE() << "an image was made";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("which the run may need"));
  }
}

TEST_F(FollowerWeights, ASnapshotThatIsGoneKeepsNobodyFromTheRest) {
  add_snapshot(4, "four");
  const auto link = open();
  ask_weights(*link);
  ledger_.save(Snapshot{5, {}, {.hash = {9}, .size_bytes = 9}});
  EXPECT_EQ(ask_weights(*link).weights.back().version, 4U);
  EXPECT_EQ(ask(*link, 0).entries.size(), 1U);
}

}  // namespace
}  // namespace causeway::diloco
