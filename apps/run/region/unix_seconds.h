#pragma once

#include <chrono>

namespace causeway::run {

// Of the system's clock, since 1970.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace causeway::run
