// How many TLS handshakes strangers may ask for. Each costs a fraction of a millisecond of a core,
// which is little against what one machine can send. So an address has a budget, all strangers
// together have one, and addresses that members come from have their own, which no stranger
// elsewhere can use up. Clocks are given, none is read.
#pragma once

#include <chrono>
#include <map>

#include <asio/ip/address.hpp>

namespace causeway::inter {

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

}  // namespace causeway::inter
