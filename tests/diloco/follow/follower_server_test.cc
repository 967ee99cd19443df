// What a follower's certificate is good for, over real TLS: reading what lies in a region's
// directory, and nothing else.
#include "diloco/follow/follower_server.h"

#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "diloco/files/file_io.h"
#include "diloco/follow/follower_link.h"
#include "diloco/ledger/ledger.h"
#include "inter/door/tls_door.h"
#include "inter/frame/frame_body.h"
#include "inter/mesh/connection.h"
#include "inter/tls/signature.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::diloco {
namespace {

using testing::HasSubstr;

class FollowerServerTest : public ::testing::Test {
 protected:
  FollowerServerTest() {
    inter::add_follower(pki_.path(), "reader");
    inter::add_follower(pki_.path(), "other");
    ledger_.set_run_id("run-1");
    add_entry();
    payload_ = spool_.put(std::vector<std::byte>(300'000, std::byte{7}));
    serve(1'000'000'000);
  }
  ~FollowerServerTest() override {
    door_.reset();
    server_.reset();
  }

  void serve(std::uint64_t bytes_per_s) {
    door_.reset();
    server_.emplace(FollowerServerOptions{.owner = "a",
                                          .directory = directory_.path(),
                                          .credentials = pki_.credentials("a"),
                                          .settings = "train.k = 4\n",
                                          .bytes_per_s = bytes_per_s,
                                          .weights = {copy_with("image of "), patch_of_both}});
    door_.emplace(io_.get_executor(),
                  inter::TlsDoorOptions{.owner = "a", .credentials = pki_.credentials("a")},
                  [this](inter::TlsDoor::Guest guest) { server_->admit(std::move(guest)); });
    door_->listen({asio::ip::address_v4::loopback(), 0});
    door_->start();
  }
  // As a region would, but for a chunk that it sends again and again.
  asio::awaitable<void> repeat_a_chunk(std::shared_ptr<inter::TlsDoor::Guest> guest) {
    inter::Connection connection(std::move(guest->socket), std::move(guest->stream),
                                 inter::ConnectionSettings{1 << 20, {}, {}});
    try {
      co_await connection.read();
      const inter::Bytes accepted = inter::encode_empty(inter::FrameType::accept);
      co_await connection.write(accepted);
      co_await connection.read();
      inter::Bytes frame = inter::encode_chunk(payload_, 0, {});
      spool_.read(payload_, 0, std::span(frame).last(inter::chunk_bytes(payload_, 0)));
      for (int i = 0; i < 1000; ++i) co_await connection.write(frame);
    } catch (const inter::LinkError&) {  // the follower has left
    }
  }
  // Stand-ins: what an image and a patch hold is no matter here.
  static std::function<void(const std::filesystem::path&, const std::filesystem::path&)> copy_with(
      const std::string& words) {
    return [words](const std::filesystem::path& from, const std::filesystem::path& to) {
      replace_file(to, words + read_file(from).value(), Durability::visible);
    };
  }
  static void patch_of_both(const std::filesystem::path& from, const std::filesystem::path& to,
                            const std::filesystem::path& patch) {
    replace_file(patch, read_file(from).value() + " -> " + read_file(to).value(),
                 Durability::visible);
  }
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
  void add_entry() {
    const LogEntry entry{.term = ++term_, .body = {}};
    ledger_.append(std::span(&entry, 1));
  }

  // What the test does against the server. A future would be set by a thread of its own, perhaps
  // after run_one() has begun to wait.
  template <typename Result>
  struct Task {
    bool ended = false;
    std::exception_ptr failure;
    Result result;
  };
  template <typename Result>
  std::shared_ptr<Task<Result>> begin(asio::awaitable<Result> work) {
    const auto task = std::make_shared<Task<Result>>();
    asio::co_spawn(io_, std::move(work), [task](std::exception_ptr failure, Result result) {
      *task = {true, std::move(failure), std::move(result)};
    });
    io_.restart();
    return task;
  }
  template <typename Result>
  Result end(const std::shared_ptr<Task<Result>>& task) {
    while (!task->ended) io_.run_one();
    if (task->failure) std::rethrow_exception(task->failure);
    return std::move(task->result);
  }
  template <typename Result>
  Result run(asio::awaitable<Result> work) {
    return end(begin(std::move(work)));
  }
  inter::TlsContext context(const std::string& name) {
    return inter::make_tls_context(pki_.credentials(name), inter::TlsRole::client);
  }
  std::unique_ptr<FollowerLink> open(const std::string& name = "reader") {
    return run(FollowerLink::open(io_.get_executor(), {.self = name + ".follower",
                                                       .region = "a",
                                                       .address = {"127.0.0.1", door_->port()},
                                                       .context = context(name)}));
  }
  FollowerAnswer ask(FollowerLink& link, std::uint64_t first, bool wait = false) {
    return run(link.ask({.first = first, .wait = wait}));
  }
  // What the server's answer to these frames ends with, after the greeting.
  std::string end_of(const inter::Hello& hello, const inter::Bytes& frame,
                     const std::string& name = "reader") {
    return run(say(hello, frame, name));
  }
  asio::awaitable<std::string> say(inter::Hello hello, inter::Bytes frame, std::string name) {
    inter::Connection connection(asio::ip::tcp::socket(io_), context(name), {1 << 20, {}, {}});
    try {
      co_await connection.connect({asio::ip::address_v4::loopback(), door_->port()});
      co_await connection.handshake();
      const inter::Bytes greeting = encode(hello);
      co_await connection.write(greeting);
      inter::FrameView answer = co_await connection.read();
      if (answer.type == inter::FrameType::refuse)
        co_return "refused: " + inter::decode_reason(answer.body);
      co_await connection.write(frame);
      answer = co_await connection.read();
      co_return "answered with " + std::string(to_string(answer.type));
    } catch (const inter::LinkError& error) {
      co_return error.reason();
    }
  }
  static inter::Hello hello(inter::ConnectionKind kind = inter::ConnectionKind::follower,
                            const std::string& name = "reader.follower") {
    return {kind, {}, name, {}};
  }

  asio::io_context io_{1};
  test::TestPki pki_{{"a"}};
  test::TemporaryDirectory directory_, own_;
  inter::SigningKey key_{pki_.credentials("a").key};
  Ledger ledger_{directory_.path() / "ledger",
                 [this](const std::string& content) { return key_.sign(content); }};
  inter::Spool spool_{directory_.path() / "spool", 1U << 30};
  inter::Spool received_{own_.path(), 1U << 30};
  inter::BlobId payload_;
  Term term_ = 0;
  std::optional<FollowerServer> server_;
  std::optional<inter::TlsDoor> door_;
};

TEST_F(FollowerServerTest, TellsEntriesWithASignatureThatCoversThem) {
  add_entry();
  const auto link = open();
  const FollowerAnswer answer = ask(*link, 0);
  EXPECT_EQ(answer.run_id, "run-1");
  EXPECT_EQ(answer.settings, "train.k = 4\n");
  ASSERT_EQ(answer.entries.size(), 2U);
  EXPECT_EQ(answer.known, 2U);
  ASSERT_EQ(answer.heads.size(), 1U);
  EXPECT_EQ(answer.heads[0].entries, 2U);
  const inter::VerifyingKey key(answer.heads[0].certificate, "a", context("reader"));
  EXPECT_TRUE(key.verify(signed_content(ledger_.head()), answer.heads[0].signature));
  EXPECT_TRUE(ask(*link, 2).entries.empty());
  EXPECT_TRUE(ask(*link, 7'000).entries.empty()) << "more than there are";
}

TEST_F(FollowerServerTest, WhoWaitsIsToldOfTheNextEntry) {
  const auto link = open();
  auto answer = begin(link->ask({.first = 1, .wait = true}));
  io_.restart();
  io_.poll();
  add_entry();
  server_->tell();
  EXPECT_EQ(end(answer).entries.size(), 1U);
}

TEST_F(FollowerServerTest, GivesPayloadsAndGoesOnWhereACopyEnds) {
  const auto content = spool_.read(payload_, 0, payload_.size_bytes);
  received_.write(payload_, 1,
                  std::span(content).subspan(inter::kSmallChunkBytes, inter::kSmallChunkBytes));
  const auto link = open();
  EXPECT_TRUE(run(link->fetch(payload_, received_)));
  EXPECT_EQ(received_.read(payload_, 0, payload_.size_bytes), content);
  EXPECT_LT(link->received_bytes(), payload_.size_bytes) << "one chunk was there";
  inter::BlobId absent = payload_;
  absent.hash[0] ^= 1;
  EXPECT_FALSE(run(link->fetch(absent, received_)));
  EXPECT_EQ(ask(*link, 0).entries.size(), 1U) << "the link goes on";
}

TEST_F(FollowerServerTest, WrongBytesAreFoundByTheFollower) {
  std::fstream(spool_.path(payload_), std::ios::in | std::ios::out).put('x');
  const auto link = open();
  try {
    run(link->fetch(payload_, received_));
    ADD_FAILURE() << "a changed payload was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), inter::Errc::hash_mismatch);
  }
  EXPECT_FALSE(received_.has(payload_));
}

TEST_F(FollowerServerTest, WhoWantsWeightsIsToldOfThemUnderASignature) {
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

TEST_F(FollowerServerTest, APatchLeadsFromTheImageThatIsHeld) {
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

TEST_F(FollowerServerTest, WhoWaitsForWeightsIsToldOfTheVersionThatIsDue) {
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

TEST_F(FollowerServerTest, ARunThatWentBackSaysNothingOfWhatIsVoid) {
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

TEST_F(FollowerServerTest, TheImageOfWhoWaitsForLongIsKept) {
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
TEST_F(FollowerServerTest, FewImagesAreKeptTheOneThatIsHeldAmongThem) {
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

TEST_F(FollowerServerTest, TheRunsDiskKeepsRoomForTheRun) {
  WeightsShelf shelf(directory_.path(), {copy_with("image of "), patch_of_both}, {});
  const Snapshot huge{5, {}, {.hash = {9}, .size_bytes = inter::kBlobBytesMax}};
  try {
    shelf.take("run-1", huge, "not looked at");
    ADD_FAILURE() << "an image was made";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("which the run may need"));
  }
}

TEST_F(FollowerServerTest, ASnapshotThatIsGoneKeepsNobodyFromTheRest) {
  add_snapshot(4, "four");
  const auto link = open();
  ask_weights(*link);
  ledger_.save(Snapshot{5, {}, {.hash = {9}, .size_bytes = 9}});
  EXPECT_EQ(ask_weights(*link).weights.back().version, 4U);
  EXPECT_EQ(ask(*link, 0).entries.size(), 1U);
}

// It would hold its follower for ever, as each frame is a sign of life.
TEST_F(FollowerServerTest, WhoSendsAChunkAgainIsLeft) {
  door_.emplace(
      io_.get_executor(), inter::TlsDoorOptions{.owner = "a", .credentials = pki_.credentials("a")},
      [this](inter::TlsDoor::Guest guest) {
        const auto protocol = guest.socket.local_endpoint().protocol();
        asio::post(io_, [this, protocol, socket = guest.socket.release(),
                         guest = std::make_shared<inter::TlsDoor::Guest>(std::move(guest))] {
          guest->socket = {io_, protocol, socket};
          asio::co_spawn(io_, repeat_a_chunk(guest), [](const std::exception_ptr&) {});
        });
      });
  door_->listen({asio::ip::address_v4::loopback(), 0});
  door_->start();
  const auto link = open();
  try {
    run(link->fetch(payload_, received_));
    ADD_FAILURE() << "a blob without its end was taken";
  } catch (const inter::LinkError& error) {
    EXPECT_THAT(error.reason(), HasSubstr("which was not asked for"));
  }
}

TEST_F(FollowerServerTest, TakesNoOtherFrameThanAQuestionAndAFetch) {
  using inter::FrameType;
  for (int number = 1; number <= static_cast<int>(FrameType::messages_here_too); ++number) {
    const auto type = static_cast<FrameType>(number);
    if (type == FrameType::message || type == FrameType::blob_fetch) continue;
    // A body of a length that every type takes, so that the type alone is judged.
    inter::ByteWriter writer(inter::kFrameHeaderBytes);
    write_frame_header(writer, type, 0);
    EXPECT_EQ(end_of(hello(), writer.take()), "the peer closed the connection") << to_string(type);
  }
  EXPECT_EQ(ask(*open(), 0).entries.size(), 1U);
}

TEST_F(FollowerServerTest, IsNoRegionNoObserverAndNobodyElse) {
  using inter::ConnectionKind;
  const inter::Bytes question = inter::encode_text(inter::FrameType::message, "");
  for (const auto kind : {ConnectionKind::control, ConnectionKind::data, ConnectionKind::observer,
                          ConnectionKind::detour})
    EXPECT_THAT(end_of(hello(kind), question),
                HasSubstr("for following a run, and for nothing else"));
  EXPECT_THAT(end_of(hello(ConnectionKind::follower, "a"), question), HasSubstr("nothing else"));
  EXPECT_THAT(end_of(hello(ConnectionKind::follower, "other.follower"), question),
              HasSubstr("nothing else"));
  EXPECT_EQ(end_of(hello(), question), "answered with message");
}

TEST_F(FollowerServerTest, AQuestionThatIsNoneEndsTheLink) {
  EXPECT_EQ(end_of(hello(), inter::encode_text(inter::FrameType::message, "\xff\xff")),
            "the peer closed the connection");
  EXPECT_EQ(end_of(hello(), inter::encode_text(inter::FrameType::message, std::string(100, 'x'))),
            "the peer closed the connection");
}

TEST_F(FollowerServerTest, ANameHasFewConnectionsAndOthersKeepTheirs) {
  const auto others = open("other");
  std::vector<std::unique_ptr<FollowerLink>> links;
  for (int i = 0; i < 8; ++i) links.push_back(open());
  EXPECT_THROW(ask(*links.front(), 0), inter::LinkError);
  EXPECT_EQ(ask(*links.back(), 0).entries.size(), 1U);
  EXPECT_EQ(ask(*others, 0).entries.size(), 1U);
}

TEST_F(FollowerServerTest, OneWhoAsksForEverythingAndReadsNothingHoldsUpNobody) {
  const auto large = spool_.put(std::vector<std::byte>(64U << 20, std::byte{1}));
  inter::Connection greedy(asio::ip::tcp::socket(io_), context("other"), {1 << 20, {}, {}});
  const auto flood = [&]() -> asio::awaitable<bool> {
    co_await greedy.connect({asio::ip::address_v4::loopback(), door_->port()});
    co_await greedy.handshake();
    const inter::Bytes greeting = encode(hello(inter::ConnectionKind::follower, "other.follower"));
    co_await greedy.write(greeting);
    co_await greedy.read();
    const inter::Bytes fetch = encode(inter::BlobFetch{
        .id = large, .start = 0, .held = inter::ChunkMap(inter::chunk_count(large.size_bytes))});
    for (int i = 0; i < 100; ++i) co_await greedy.write(fetch);
    co_return true;
  };
  EXPECT_TRUE(run(flood()));
  const auto link = open();
  EXPECT_TRUE(run(link->fetch(payload_, received_)));
  spool_.remove(large);
  EXPECT_FALSE(run(link->fetch(large, received_))) << "what the run lets go is gone";
}

TEST_F(FollowerServerTest, ATransferThatHasBegunComesToItsEndAlthoughTheRunLetsTheBlobGo) {
  const auto large = spool_.put(std::vector<std::byte>(64U << 20, std::byte{1}));
  const auto link = open();
  auto fetched = begin(link->fetch(large, received_));
  io_.restart();
  while (received_.received_bytes(large) == 0) io_.run_one();
  spool_.remove(large);
  EXPECT_TRUE(end(fetched));
  EXPECT_TRUE(received_.has(large));
}

TEST_F(FollowerServerTest, ARegionThatServesNobodySaysSo) {
  serve(0);
  EXPECT_THAT(end_of(hello(), {}), HasSubstr("links.followers_mbit_s = 0"));
}

TEST_F(FollowerServerTest, AFollowerThatIsRevokedIsDroppedAndRefused) {
  const auto link = open();
  EXPECT_EQ(ask(*link, 0).entries.size(), 1U);
  inter::revoke_region(pki_.path(), "reader");
  auto answer = begin(link->ask({.first = 1, .wait = true}));
  io_.restart();
  EXPECT_THROW(end(answer), inter::LinkError);
  try {
    open();
    ADD_FAILURE() << "a revoked follower was let in";
  } catch (const inter::LinkError& error) {
    EXPECT_TRUE(inter::is_refusal(error.code())) << error.reason();
  }
  EXPECT_EQ(ask(*open("other"), 0).entries.size(), 1U);
}

TEST_F(FollowerServerTest, TheEndWaitsForWhoReadsAndNotForWhoIsGone) {
  auto link = open();
  ledger_.save_finished(1, {});
  EXPECT_EQ(ask(*link, 1, true).finished, (Applied{1, {}}));
  link->close();
  const auto see_off = [this]() -> asio::awaitable<bool> {
    co_await server_->see_off(io_.get_executor());
    co_return true;
  };
  EXPECT_TRUE(run(see_off()));
}

}  // namespace
}  // namespace causeway::diloco
