// The simulator's time: nanoseconds since any fixed instant.
#pragma once

#include <chrono>

namespace causeway::wan_sim {

using Time = std::chrono::nanoseconds;

inline constexpr Time kNever = Time::max() / 4;  // later than all else, and far from overflow

inline double in_seconds(Time time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace causeway::wan_sim
