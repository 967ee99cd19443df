// What a coordinator waits for: logged if it is not over soon, and counted by member.
#pragma once

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <spdlog/spdlog.h>

#include "diloco/log/membership.h"

namespace causeway::diloco {

// As a word: "eu" is not in "eu-west".
inline bool mentions(std::string_view sentence, std::string_view name) {
  const auto in_names = [&](std::size_t at) {
    return at < sentence.size() &&
           (std::isalnum(static_cast<unsigned char>(sentence[at])) || sentence[at] == '-');
  };
  for (auto at = sentence.find(name); at != sentence.npos; at = sentence.find(name, at + 1)) {
    if ((at == 0 || !in_names(at - 1)) && !in_names(at + name.size())) return true;
  }
  return false;
}

class WaitLog {
 public:
  // To be called again and again, at equal intervals: `what` is waited for in `round`; empty:
  // nothing.
  void note(const std::string& region, const std::string& what, Round round,
            const Membership& membership) {
    log(region, what);
    if (round != round_) intervals_.clear();
    round_ = round;
    for (const Member& member : membership.members) {
      if (member.region != region && mentions(what, member.region)) ++intervals_[member.region];
    }
  }

  // The member that was waited for longest in `round`; empty: none.
  std::string longest(Round round) const {
    if (round != round_ || intervals_.empty()) return {};
    const auto shorter = [](const auto& one, const auto& other) {
      return one.second < other.second;
    };
    return std::ranges::max_element(intervals_, shorter)->first;
  }

 private:
  static constexpr std::chrono::seconds kLogInterval{10};

  void log(const std::string& region, const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    if (what.empty() || what_.empty()) {
      logged_at_ = now;
    } else if (now >= logged_at_ + kLogInterval) {
      spdlog::info("{}: waiting for {}", region, what);
      logged_at_ = now;
    }
    what_ = what;
  }

  std::string what_;
  std::chrono::steady_clock::time_point logged_at_;
  Round round_ = 0;
  std::map<std::string, std::uint64_t> intervals_;
};

}  // namespace causeway::diloco
