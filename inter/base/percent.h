// Shares in log lines. Internal to inter.
#pragma once

#include <cstdint>
#include <string>

namespace causeway::inter {

inline std::string percent(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(whole == 0 ? 100 : part * 100 / whole) + " %";
}

}  // namespace causeway::inter
