// The time that the protocol's state machines are told; they read no clock.
#pragma once

#include <chrono>

namespace causeway::diloco {

// A point in time: since any fixed instant, never going back.
using Time = std::chrono::microseconds;

}  // namespace causeway::diloco
