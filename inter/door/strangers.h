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

namespace causeway::inter {

// How many TLS handshakes strangers may ask for. Each costs a fraction of a millisecond of a core,
// which is little against what one machine can send. So an address has a budget, all strangers
// together have one, and addresses that members come from have their own, which no stranger
// elsewhere can use up. Clocks are given, none is read.

// Handshakes per second on average, and how many at once after a pause.
struct HandshakeRate {
  double per_s = 0, at_once = 0;
};

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

  // A member came from there, or is at home there.
  void expect(const asio::ip::address& address, Clock::time_point now);
  bool expects(const asio::ip::address& address) const;

 private:
  struct Bucket {
    double taken = 0;
    Clock::time_point at{};  // when it was so

    double taken_by(Clock::time_point now, const HandshakeRate& rate) const;
    bool take(Clock::time_point now, const HandshakeRate& rate);
  };
  using Buckets = std::map<asio::ip::address, Bucket>;

  static void forget_rested(Buckets& buckets, const HandshakeRate& rate, Clock::time_point now);

  HandshakeLimits limits_;
  Buckets stranger_, expected_;
  Bucket strangers_;
};

// A visitor has `std::string remote_host()`, and `close(code, reason)`, after which it leaves.
template <typename Visitor>
class Strangers {
 public:
  using Pointer = std::shared_ptr<Visitor>;

  explicit Strangers(std::size_t max) : max_(max) {}

  // Closes another one if there are too many. Somebody who is expected is closed only for others
  // who are.
  void enter(const Pointer& visitor, bool expected = false) {
    (expected ? expected_ : waiting_).push_back(visitor);
    make_room();
  }
  // It was told why, and is waited for to close.
  void refused(const Pointer& visitor) {
    leave(visitor);
    refused_.push_back(visitor);
    make_room();
  }
  void leave(const Pointer& visitor) {
    expected_.remove(visitor);
    waiting_.remove(visitor);
    refused_.remove(visitor);
  }

 private:
  // The oldest from the address that has most of them: a crowd from one address makes room for
  // itself and keeps nobody out who comes from elsewhere.
  static Pointer least_welcome(const std::list<Pointer>& waiting) {
    std::map<std::string, std::size_t> counts;
    for (const Pointer& visitor : waiting) ++counts[visitor->remote_host()];
    return *std::max_element(waiting.begin(), waiting.end(),
                             [&](const Pointer& a, const Pointer& b) {
                               return counts[a->remote_host()] < counts[b->remote_host()];
                             });
  }

  void make_room() {
    if (expected_.size() + waiting_.size() + refused_.size() <= max_) return;
    const Pointer leaving = !refused_.empty()   ? refused_.front()
                            : !waiting_.empty() ? least_welcome(waiting_)
                                                : least_welcome(expected_);
    leave(leaving);
    leaving->close(Errc::refused, "too many unauthenticated peers wait for their handshake");
  }

  std::size_t max_;
  std::list<Pointer> expected_, waiting_, refused_;  // oldest first
};

}  // namespace causeway::inter
