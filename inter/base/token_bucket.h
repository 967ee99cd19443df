// What another party may cost us: so much a second on average, and so much at once after a pause.
// Times are given, no clock is read.
#pragma once

#include <algorithm>
#include <chrono>

namespace causeway::inter {

struct TokenRate {
  double per_s = 0, at_once = 0;
};

class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  // Of what was taken, so much still counts.
  double taken(Clock::time_point now, const TokenRate& rate) const {
    const double passed_s = std::chrono::duration<double>(now - at_).count();
    return std::max(0.0, taken_ - passed_s * rate.per_s);
  }
  // False, and nothing is taken: there is no more now.
  bool take(Clock::time_point now, const TokenRate& rate) {
    const double before = taken(now, rate);
    if (before + 1 > rate.at_once) return false;
    taken_ = before + 1;
    at_ = now;
    return true;
  }

 private:
  double taken_ = 0;
  Clock::time_point at_{};  // when it was so
};

}  // namespace causeway::inter
