// How many handshakes strangers, crowds of them and members may ask for.

#include "inter/door/strangers.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::seconds;

class Handshakes : public testing::Test {
 protected:
  int taken(const std::string& address, int asked) {
    int granted = 0;
    for (int i = 0; i < asked; ++i) granted += take(address) ? 1 : 0;
    return granted;
  }
  bool take(const std::string& address) {
    return budget_.take(asio::ip::make_address(address), now_);
  }
  void expect(const std::string& address) { budget_.expect(asio::ip::make_address(address), now_); }

  HandshakeBudget::Clock::time_point now_{std::chrono::hours(1)};
  HandshakeBudget budget_{{.stranger = {2, 10}, .strangers = {5, 25}, .expected = {20, 40}}};
};

TEST_F(Handshakes, AnAddressHasABudgetThatComesBackWithTime) {
  EXPECT_EQ(taken("192.0.2.1", 100), 10);
  EXPECT_EQ(taken("192.0.2.2", 1), 1) << "another address has its own";
  now_ += seconds(3);
  EXPECT_EQ(taken("192.0.2.1", 100), 6);
  now_ += seconds(3600);
  EXPECT_EQ(taken("192.0.2.1", 100), 10) << "nobody saves more than one burst";
}

TEST_F(Handshakes, StrangersTogetherHaveOneToo) {
  EXPECT_EQ(taken("192.0.2.1", 10) + taken("192.0.2.2", 10) + taken("192.0.2.3", 10), 25);
  EXPECT_FALSE(take("192.0.2.4"));
  now_ += seconds(1);
  EXPECT_EQ(taken("192.0.2.4", 100), 5) << "and it was not charged for what it did not get";
}

TEST_F(Handshakes, StrangersDoNotUseUpWhatMembersHave) {
  expect("198.51.100.7");
  for (int i = 1; i < 20; ++i) taken("192.0.2." + std::to_string(i), 10);
  EXPECT_FALSE(take("192.0.2.1"));
  EXPECT_EQ(taken("198.51.100.7", 100), 40);
}

TEST_F(Handshakes, WhoHasOneAddressOfIPv6HasAllOfItsNetwork) {
  EXPECT_EQ(taken("2001:db8::1", 6) + taken("2001:db8::ffff:2", 6), 10);
  EXPECT_EQ(taken("2001:db8:0:1::1", 6), 6);
  EXPECT_EQ(taken("::ffff:192.0.2.1", 6) + taken("192.0.2.1", 6), 9)
      << "one IPv4 address, and 25 in all";
}

TEST_F(Handshakes, ManyAddressesAreForgottenAgain) {
  HandshakeBudget wide({.stranger = {10, 10}, .strangers = {1e9, 1e9}, .expected = {10, 10}});
  for (unsigned i = 0; i < 20'000; ++i) {
    now_ += std::chrono::milliseconds(1);
    EXPECT_TRUE(wide.take(asio::ip::address_v4(i), now_));
  }
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(wide.take(asio::ip::address_v4(19'999), now_));
  EXPECT_FALSE(wide.take(asio::ip::address_v4(19'999), now_)) << "who came lately is not";
}

// Somebody who waits, and whether it was closed.
struct Waiter {
  std::string host;
  bool closed = false;

  std::string remote_host() const { return host; }
  void close(std::error_code, const std::string&) { closed = true; }
};

class Crowd : public testing::Test {
 protected:
  std::shared_ptr<Waiter> enter(const std::string& host, bool expected = false) {
    auto waiter = std::make_shared<Waiter>(Waiter{host});
    strangers_.enter(waiter, expected);
    return waiter;
  }
  std::vector<std::shared_ptr<Waiter>> enter(int count, const std::string& host,
                                             bool expected = false) {
    std::vector<std::shared_ptr<Waiter>> all;
    for (int i = 0; i < count; ++i) all.push_back(enter(host, expected));
    return all;
  }
  static int closed(const std::vector<std::shared_ptr<Waiter>>& waiters) {
    return static_cast<int>(
        std::ranges::count_if(waiters, [](const auto& one) { return one->closed; }));
  }

  Strangers<Waiter> strangers_{256};
};

TEST_F(Crowd, OfOneAddressIsAtMostAQuarterOfAll) {
  const auto crowd = enter(70, "192.0.2.1");
  EXPECT_EQ(closed(crowd), 6);
  EXPECT_TRUE(crowd.front()->closed && !crowd.back()->closed) << "the oldest go";
}

TEST_F(Crowd, OfOneNetworkOfIPv6IsOfOneAddress) {
  std::vector<std::shared_ptr<Waiter>> crowd;
  for (int i = 1; i <= 70; ++i) crowd.push_back(enter("2001:db8::" + std::to_string(i)));
  EXPECT_EQ(closed(crowd), 6);
}

TEST_F(Crowd, WhereAMemberIsAtHomeMakesRoomForWhoComesAlone) {
  const auto crowd = enter(256, "198.51.100.7", true);
  const auto joiner = enter("192.0.2.1"), mover = enter("192.0.2.2");
  EXPECT_FALSE(joiner->closed || mover->closed);
  EXPECT_EQ(closed(crowd), 2);
}

TEST_F(Crowd, OfStrangersMakesRoomBeforeMembersDo) {
  const auto members = enter(200, "198.51.100.7", true);
  const auto strangers = enter(64, "192.0.2.1");
  EXPECT_EQ(closed(members), 0);
  EXPECT_EQ(closed(strangers), 8);
}

TEST_F(Crowd, OfManyAddressesGivesWayOldestFirst) {
  std::vector<std::shared_ptr<Waiter>> crowd;
  for (int i = 0; i < 257; ++i) {
    crowd.push_back(enter("192.0." + std::to_string(i / 250) + "." + std::to_string(i % 250)));
  }
  EXPECT_TRUE(crowd.front()->closed);
  EXPECT_EQ(closed(crowd), 1);
}

}  // namespace

}  // namespace causeway::inter
