// Connections that have not proved yet that they are a peer's. They cost memory and sockets, so
// there is a limit; those that were refused already and only have yet to close count as well, and
// are the first to go. Internal to inter.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>

#include <asio/ip/address.hpp>

#include "inter/base/error.h"
#include "inter/base/limits.h"
#include "inter/base/token_bucket.h"

namespace causeway::inter {

// How many TLS handshakes strangers may ask for. Each costs a fraction of a millisecond of a core,
// which is little against what one machine can send. So an address has a budget, all strangers
// together have one, and addresses that members come from have their own, which no stranger
// elsewhere can use up. Clocks are given, none is read.

using HandshakeRate = TokenRate;

struct HandshakeLimits {
  HandshakeRate stranger{100, 400};   // one address; of IPv6 one network of 64 bits
  HandshakeRate strangers{400, 800};  // all of them
  HandshakeRate expected{400, 4000};  // an address that members come from, each with many links
};

class HandshakeBudget {
 public:
  using Clock = std::chrono::steady_clock;

  explicit HandshakeBudget(const HandshakeLimits& limits = {}) : limits_(limits) {}

  // Takes one handshake out of the budget of who comes from `address`. False: nothing is left.
  bool take(const asio::ip::address& address, Clock::time_point now);

  // A member came from there and was taken in, or is at home there. A certificate alone is not
  // enough: others have some that may only look.
  void expect(const asio::ip::address& address, Clock::time_point now);
  bool expects(const asio::ip::address& address) const;

 private:
  using Buckets = std::map<asio::ip::address, TokenBucket>;

  static void forget_rested(Buckets& buckets, const HandshakeRate& rate, Clock::time_point now);

  HandshakeLimits limits_;
  Buckets stranger_, expected_;
  TokenBucket strangers_;
};

// Whose an address is: of IPv6 whoever has one has all of its network of 64 bits.
std::string network_of(const std::string& host);

// A visitor has `std::string remote_host()`, and `close(code, reason)`, after which it leaves.
template <typename Visitor>
class Strangers {
 public:
  using Pointer = std::shared_ptr<Visitor>;

  explicit Strangers(std::size_t max, std::size_t from_one_max = kUnauthenticatedFromOneMax)
      : max_(max), from_one_max_(from_one_max) {}

  // Closes another one if there are too many, of all or of those from one address that nobody
  // expects. Somebody who is expected is closed only for others who are, or in a crowd for somebody
  // who is alone.
  void enter(const Pointer& visitor, bool expected = false) {
    Seats& seats = expected ? expected_ : waiting_;
    seats.push_back({visitor, network_of(visitor->remote_host())});
    if (!expected && count(waiting_, seats.back().from) > from_one_max_)
      close(oldest(waiting_, seats.back().from));
    make_room();
  }
  // It was told why, and is waited for to close.
  void refused(const Pointer& visitor) {
    leave(visitor);
    refused_.push_back({visitor, {}});
    make_room();
  }
  void leave(const Pointer& visitor) {
    for (Seats* seats : {&expected_, &waiting_, &refused_})
      seats->remove_if([&](const Seat& one) { return one.visitor == visitor; });
  }

 private:
  struct Seat {
    Pointer visitor;
    std::string from;
  };
  using Seats = std::list<Seat>;  // oldest first

  static std::size_t count(const Seats& seats, const std::string& from) {
    return static_cast<std::size_t>(std::count_if(
        seats.begin(), seats.end(), [&](const Seat& one) { return one.from == from; }));
  }
  static Pointer oldest(const Seats& seats, const std::string& from) {
    return std::find_if(seats.begin(), seats.end(),
                        [&](const Seat& one) { return one.from == from; })
        ->visitor;
  }

  // The oldest from the address that has most of them: a crowd from one address makes room for
  // itself and keeps nobody out who comes from elsewhere.
  Pointer least_welcome() const {
    std::map<std::string, std::size_t> counts;
    for (const Seats* seats : {&waiting_, &expected_})
      for (const Seat& one : *seats) ++counts[one.from];
    const auto crowd = [&](const Seats& seats) {
      return std::max_element(seats.begin(), seats.end(), [&](const Seat& a, const Seat& b) {
        return counts.at(a.from) < counts.at(b.from);
      });
    };
    const auto stranger = crowd(waiting_), member = crowd(expected_);
    if (stranger == waiting_.end()) return member->visitor;
    const bool alone = counts.at(stranger->from) == 1;
    const bool makes_room = member != expected_.end() && counts.at(member->from) > 1;
    return alone && makes_room ? member->visitor : stranger->visitor;
  }

  void make_room() {
    if (expected_.size() + waiting_.size() + refused_.size() <= max_) return;
    close(refused_.empty() ? least_welcome() : refused_.front().visitor);
  }

  void close(const Pointer& leaving) {
    leave(leaving);
    leaving->close(Errc::refused, "too many unauthenticated peers wait for their handshake");
  }

  std::size_t max_, from_one_max_;
  Seats expected_, waiting_, refused_;
};

}  // namespace causeway::inter
