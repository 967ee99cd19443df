// How many lines others may put into our log: what a peer or a stranger causes has a budget for
// each kind of line, and what is left out is counted.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace causeway::inter {

class LogBudget {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogBudget(unsigned lines_a_minute) : max_(lines_a_minute) {}

  // What to add to a line of this kind: "", or how many before it were left out. Nothing: it is
  // left out too, and counted.
  std::optional<std::string> take(std::string_view kind, Clock::time_point now = Clock::now()) {
    if (now >= minute_ends_) {
      minute_ends_ = now + std::chrono::minutes(1);
      for (auto& [other, lines] : kinds_) lines.said = 0;
      std::erase_if(kinds_, [](const auto& one) { return one.second.left_out == 0; });
    }
    // Others choose the words, so memory must not grow with them.
    const bool room = kinds_.size() < kKindsMax || kinds_.contains(std::string(kind));
    Lines& lines = kinds_[room ? std::string(kind) : std::string()];
    if (lines.said == max_) {
      ++lines.left_out;
      return std::nullopt;
    }
    const std::uint64_t missing = std::exchange(lines.left_out, 0);
    std::string more = missing == 0 ? "" : " (" + std::to_string(missing) + " more like it since)";
    if (++lines.said == max_) more += " (for a minute, more like it are only counted)";
    return more;
  }

  // Lines that differ in numbers and addresses alone are of one kind.
  static std::string kind_of(std::string_view line) {
    constexpr std::size_t kLettersMax = 48;
    std::string kind;
    for (const char c : line) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (letter) kind += c;
      if (kind.size() == kLettersMax) break;
    }
    return kind;
  }

 private:
  static constexpr std::size_t kKindsMax = 256;
  struct Lines {
    unsigned said = 0;  // in this minute
    std::uint64_t left_out = 0;
  };

  unsigned max_;
  Clock::time_point minute_ends_{};
  std::map<std::string, Lines> kinds_;
};

}  // namespace causeway::inter
