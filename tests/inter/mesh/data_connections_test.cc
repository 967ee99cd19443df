// Which connections of a session send in a burst. They are never connected here.
#include "inter/mesh/data_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>

#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

constexpr std::uint64_t kSmall = 1U << 20, kLarge = 1U << 30;

constexpr std::chrono::milliseconds kLate{3'000}, kQuick{60};  // answers to heartbeats

class DataConnectionsTest : public testing::Test {
 protected:
  std::shared_ptr<Connection> connection() {
    return std::make_shared<Connection>(asio::ip::tcp::socket(io_), TlsContext(),
                                        ConnectionSettings{});
  }
  static std::size_t sending(const DataConnections& connections) {
    std::size_t count = 0;
    for (ConnectionNumber number = 1; number <= 4; ++number) {
      count += connections.takes_part(number) ? 1 : 0;
    }
    return count;
  }

  void make_slow(LinkMeter::Time now) {
    for (const int ago : {40, 20}) {
      meter_.on_burst(now - std::chrono::seconds(ago));
      meter_.on_acknowledged(100'000, true, now - std::chrono::seconds(ago - 10));
    }
    meter_.on_round_trip(std::chrono::milliseconds(100), now);
  }
  // Heartbeats wait in its queue.
  void fill_path(LinkMeter::Time now) {
    make_slow(now);
    for (int i = 0; i < 20; ++i) meter_.on_round_trip(std::chrono::seconds(2), now);
  }

  test::TemporaryDirectory directory_;
  asio::io_context io_;
  MeshOptions options_;
  std::string peer_ = "b";
  Spool spool_{directory_.path(), 1U << 20};
  BlobSender outgoing_{spool_, peer_};
  LinkMeter meter_;
};

TEST_F(DataConnectionsTest, ASmallBurstNeedsOneAndALargeOneAll) {
  DataConnections connections(options_, peer_, outgoing_, meter_, false);
  for (int i = 0; i < 4; ++i) connections.add(connection());
  EXPECT_EQ(sending(connections), 4U) << "nothing is known of the first burst";
  connections.begin_burst(kSmall, true);
  EXPECT_EQ(sending(connections), 1U);
  connections.begin_burst(kLarge, false);
  EXPECT_EQ(sending(connections), 4U);
  connections.begin_burst(kSmall, false);
  EXPECT_EQ(sending(connections), 4U) << "what others help with goes on";
  connections.begin_burst(kSmall, true);
  EXPECT_EQ(sending(connections), 1U);
}

TEST_F(DataConnectionsTest, WhereWindowsDoNotOutlastAPauseAllHelp) {
  DataConnections connections(options_, peer_, outgoing_, meter_, true);
  for (int i = 0; i < 4; ++i) connections.add(connection());
  connections.begin_burst(kSmall, true);
  EXPECT_EQ(sending(connections), 4U);
}

// Four that take turns in a queue that holds seconds lose each other's bytes, and control's.
TEST_F(DataConnectionsTest, OnASlowPathThatIsFullOneSends) {
  DataConnections connections(options_, peer_, outgoing_, meter_, true);
  for (int i = 0; i < 4; ++i) connections.add(connection());
  connections.begin_burst(kLarge, true);
  EXPECT_EQ(sending(connections), 4U);
  const auto now = DataConnections::Clock::now();
  make_slow(now);
  EXPECT_EQ(sending(connections), 4U) << "slow alone is no reason";
  fill_path(now);
  EXPECT_EQ(sending(connections), 1U);
}

// TCP may take any number of chunks, by a window of when the path was free.
TEST_F(DataConnectionsTest, OnASlowPathThatIsFullOneChunkFollowsAnother) {
  DataConnections connections(options_, peer_, outgoing_, meter_, true);
  const ConnectionNumber first = connections.add(connection());
  const BlobId id = spool_.put(std::vector<std::byte>(4 * kSmallChunkBytes));
  outgoing_.push(id);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(outgoing_.next_chunk(first));
  EXPECT_TRUE(connections.may_begin(first));
  fill_path(DataConnections::Clock::now());
  EXPECT_FALSE(connections.may_begin(first));
  outgoing_.on_ack({id, 0});
  EXPECT_TRUE(connections.may_begin(first));
}

TEST_F(DataConnectionsTest, WhatIsUnderWayWhenAPathBecomesFullIsPutBackOnce) {
  DataConnections connections(options_, peer_, outgoing_, meter_, true);
  const auto sends = connection(), idle = connection(), later = connection();
  const ConnectionNumber number = connections.add(sends);
  connections.add(idle);
  outgoing_.push(spool_.put(std::vector<std::byte>(4 * kSmallChunkBytes)));
  ASSERT_TRUE(outgoing_.next_chunk(number));
  const auto now = DataConnections::Clock::now();
  connections.begin_anew(now, kLate);
  EXPECT_FALSE(sends->is_closed());
  fill_path(now);
  connections.begin_anew(now, kLate);
  EXPECT_EQ(sends->close_reason(), kPathChanged);
  EXPECT_FALSE(idle->is_closed());
  connections.remove(number);
  outgoing_.on_connection_lost(number);
  ASSERT_TRUE(outgoing_.next_chunk(connections.add(later)));
  connections.begin_anew(now, kLate);
  EXPECT_FALSE(later->is_closed()) << "it was made for a path that is full";
}

TEST_F(DataConnectionsTest, WhatIsUnderWayWhenAPathIsFreeAgainIsPutBackToo) {
  DataConnections connections(options_, peer_, outgoing_, meter_, true);
  const auto sends = connection();
  const ConnectionNumber number = connections.add(sends);
  outgoing_.push(spool_.put(std::vector<std::byte>(4 * kSmallChunkBytes)));
  const auto now = DataConnections::Clock::now();
  fill_path(now);
  connections.begin_anew(now, kLate);
  for (int i = 0; i < 5; ++i) connections.begin_anew(now, kQuick);
  EXPECT_TRUE(meter_.is_crowded(now)) << "nothing is under way that could fill it";
  ASSERT_TRUE(outgoing_.next_chunk(number));
  for (int i = 0; i < 2; ++i) connections.begin_anew(now, kQuick);
  connections.begin_anew(now, kLate);
  for (int i = 0; i < 2; ++i) connections.begin_anew(now, kQuick);
  EXPECT_FALSE(sends->is_closed());
  connections.begin_anew(now, kQuick);
  EXPECT_EQ(sends->close_reason(), kPathChanged);
  EXPECT_FALSE(meter_.is_crowded(now));
}

// Two of them; one begins to send at a given time, and nothing moves on it.
class SilentConnections : public DataConnectionsTest {
 protected:
  using Time = DataConnections::Clock::time_point;

  void stall(Time began, DataConnections::Clock::duration answer) {
    const ConnectionNumber number = connections_.add(sends_);
    connections_.add(silent_);
    connections_.look(began);
    outgoing_.push(spool_.put(std::vector<std::byte>(4 * kSmallChunkBytes)));
    ASSERT_TRUE(outgoing_.next_chunk(number));
    connections_.look(began + std::chrono::minutes(1));
    connections_.drop_stalled(began + std::chrono::minutes(1), answer, "");
    EXPECT_THAT(sends_->close_reason(), testing::HasSubstr("no byte moved"));
  }

  DataConnections connections_{options_, peer_, outgoing_, meter_, false};
  std::shared_ptr<Connection> sends_ = connection(), silent_ = connection();
  Time made_ = DataConnections::Clock::now();
};

// A firewall forgets each that is silent for long: one after the other they would be tried in vain.
TEST_F(SilentConnections, AreDroppedWithOneThatCarriesNothing) {
  stall(made_ + std::chrono::seconds(30), kQuick);
  EXPECT_THAT(sends_->close_reason(), testing::HasSubstr("s before: a firewall or NAT"));
  ASSERT_TRUE(silent_->is_closed());
  EXPECT_THAT(silent_->close_reason(),
              testing::HasSubstr("it was silent for as long as another connection"));
}

TEST_F(SilentConnections, StayWhereThePathIsSlow) {
  stall(made_ + std::chrono::seconds(30), kLate);
  EXPECT_FALSE(silent_->is_closed());
}

TEST_F(SilentConnections, StayIfTheyWereMadeSince) {
  stall(made_ - std::chrono::seconds(30), kQuick);
  EXPECT_THAT(sends_->close_reason(), testing::Not(testing::HasSubstr("firewall")));
  EXPECT_FALSE(silent_->is_closed());
}

TEST_F(DataConnectionsTest, AnotherTakesThePlaceOfOneThatIsLost) {
  DataConnections connections(options_, peer_, outgoing_, meter_, false);
  const ConnectionNumber first = connections.add(connection());
  const ConnectionNumber second = connections.add(connection());
  connections.begin_burst(kSmall, true);
  EXPECT_FALSE(connections.takes_part(second));
  connections.remove(first);
  EXPECT_EQ(connections.size(), 1U);
  EXPECT_TRUE(connections.takes_part(second));
}

TEST_F(DataConnectionsTest, TheyEndTogether) {
  DataConnections connections(options_, peer_, outgoing_, meter_, false);
  const auto one = connection(), other = connection();
  connections.add(one);
  connections.add(other);
  connections.close(Errc::refused, "over");
  EXPECT_TRUE(one->is_closed() && other->is_closed());
  EXPECT_EQ(other->close_reason(), "over");
}

}  // namespace
}  // namespace causeway::inter
