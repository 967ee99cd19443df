// What a follower's certificate is good for, over real TLS: reading what lies in a region's
// directory, and nothing else.
#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <gmock/gmock.h>
#include <asio/post.hpp>

#include "tests/diloco/follow/follower_server_fixture.h"

namespace {

std::atomic<bool> lacks_ipv4 = false;

}  // namespace

// In place of the C library's, for this whole program.
extern "C" int socket(int domain, int type, int protocol) noexcept {
  static const auto real = reinterpret_cast<decltype(&::socket)>(::dlsym(RTLD_NEXT, "socket"));
  if (domain != AF_INET || !lacks_ipv4) return real(domain, type, protocol);
  errno = EAFNOSUPPORT;
  return -1;
}

namespace causeway::diloco {
namespace {

using testing::HasSubstr;

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

// Something on the way may drop large packets.
TEST_F(FollowerServerTest, WhereNothingIsAnsweredTheNextLinkHasSmallSegments) {
  const asio::ip::tcp::acceptor silent(io_, {asio::ip::address_v4::loopback(), 0});
  const auto small = std::make_shared<inter::SmallSegments>();
  try {
    run(FollowerLink::open(io_.get_executor(),
                           {.self = "reader.follower",
                            .region = "a",
                            .address = {"127.0.0.1", silent.local_endpoint().port()},
                            .context = context("reader"),
                            .open_deadline = std::chrono::milliseconds(50),
                            .small_segments = small}));
    ADD_FAILURE() << "nobody answers";
  } catch (const inter::LinkError& error) {
    EXPECT_THAT(error.reason(), testing::HasSubstr("though the connection stands"));
  }
  EXPECT_TRUE(small->at(silent.local_endpoint()));
}

TEST_F(FollowerServerTest, AfterALinkThatStoodForLongLargeSegmentsAreTriedAgain) {
  const auto small = std::make_shared<inter::SmallSegments>();
  const auto at = asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), door_->port());
  const auto end_link_after = [&](std::chrono::milliseconds small_segments_for) {
    run(FollowerLink::open(io_.get_executor(), {.self = "reader.follower",
                                                .region = "a",
                                                .address = {"127.0.0.1", at.port()},
                                                .context = context("reader"),
                                                .small_segments = small,
                                                .small_segments_for = small_segments_for}));
  };
  small->turn(at);
  end_link_after(std::chrono::hours(1));
  EXPECT_TRUE(small->at(at)) << "it was lost soon";
  end_link_after(std::chrono::milliseconds(0));
  EXPECT_FALSE(small->at(at));
}

// As one of IPv6 on a host without it: its other addresses, and other regions, are tried.
TEST_F(FollowerServerTest, ASocketThatCannotBeMadeIsALinkThatFails) {
  const FollowerLink::Settings settings{.self = "reader.follower",
                                        .region = "a",
                                        .address = {"127.0.0.1", 1},
                                        .context = context("reader")};
  lacks_ipv4 = true;
  EXPECT_THROW(run(FollowerLink::open(io_.get_executor(), settings)), inter::LinkError);
  lacks_ipv4 = false;
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
