// How often to try again, and how often to say so. Internal to inter.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace causeway::inter {

// How many lines others may put into our log: what a peer or a stranger causes has a budget for
// each kind of line, and what is left out is counted.
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
    std::string more = missing == 0 ? "" : fmt::format(" ({} more like it since)", missing);
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

// Exponential back-off with jitter: each delay is drawn from the upper half of [0, limit], and the
// limit doubles up to the maximum, so that regions which lost each other at once do not return in
// step.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds min, std::chrono::milliseconds max, std::uint64_t seed)
      : min_(std::max(min, std::chrono::milliseconds(1))),
        max_(std::max(max, min_)),
        limit_(min_),
        random_(seed) {}

  std::chrono::milliseconds next() {
    const auto half = static_cast<std::uint64_t>(limit_.count() / 2);
    const std::chrono::milliseconds delay(limit_.count() -
                                          static_cast<std::int64_t>(random_() % (half + 1)));
    limit_ = std::min(2 * limit_, max_);
    return delay;
  }
  void reset() { limit_ = min_; }

 private:
  std::chrono::milliseconds min_, max_, limit_;
  std::mt19937_64 random_;
};

// Lets a repeated failure into the log the 1st, 2nd, 4th, 8th, ... time, and no more than
// kLinesAMinute of all failures together, as strangers choose their addresses and their words.
class LogThrottle {
 public:
  static constexpr unsigned kLinesAMinute = 30;

  // What to add to the line, if it should be logged: "", or how often it was seen, and how many
  // others were left out.
  std::optional<std::string> note(const std::string& failure,
                                  LogBudget::Clock::time_point now = LogBudget::Clock::now()) {
    if (counts_.size() >= kFailuresMax && !counts_.contains(failure)) counts_.clear();
    const std::uint64_t times = ++counts_[failure];
    if (!std::has_single_bit(times)) return std::nullopt;
    const auto left_out = budget_.take("", now);
    if (!left_out) return std::nullopt;
    return (times == 1 ? "" : fmt::format(" (seen {} times)", times)) + *left_out;
  }
  // The failure is over: the next one is a first one again. The minute's budget is not.
  void reset() { counts_.clear(); }

 private:
  static constexpr std::size_t kFailuresMax = 256;
  std::map<std::string, std::uint64_t> counts_;
  LogBudget budget_{kLinesAMinute};
};

}  // namespace causeway::inter
