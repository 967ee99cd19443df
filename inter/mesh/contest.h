// Two processes that show the same certificate and no names, or the same (a copy of a running
// machine): each new link of one ends that of the other, who returns at once. This is noticed, and
// from then on the one whose link stands keeps it while it is alive. Clocks are given, none is
// read.
#pragma once

#include <chrono>

namespace causeway::inter {

class Contest {
 public:
  using Clock = std::chrono::steady_clock;

  // A region connects while a link of it stands, as it seems alive, that began at `began`. True:
  // there must be two of them, so the link that stands stays.
  bool is_on(Clock::time_point began, Clock::time_point now) {
    if (now > last_ + kMemory) ended_young_ = 0;
    last_ = now;
    if (ended_young_ >= kAccidents) return true;
    // A region that restarts, or whose link broke on its side alone, does so after a while.
    ended_young_ = now < began + kYoung ? ended_young_ + 1 : 0;
    return false;
  }

 private:
  static constexpr unsigned kAccidents = 3;
  static constexpr std::chrono::seconds kYoung{5}, kMemory{30};

  unsigned ended_young_ = 0;  // links in a row
  Clock::time_point last_{};
};

}  // namespace causeway::inter
