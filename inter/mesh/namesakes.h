// Processes that show one certificate, by the names that they give themselves. A process that is
// started again has another name. So a name that comes back after another one had the link is that
// of a process that never ended: there are two at once. Then the one that began first has the link,
// in every region that both reach, as two that vote under one name could decide a round twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>

namespace causeway::inter {

// How the word to the one that stays out begins.
inline constexpr const char* kTwoProcesses = "two processes use the certificate of ";

// Of one region, as its peer sees it.
class Namesakes {
 public:
  // A link with this one begins, directly or by way of a third region. Names sort by when their
  // processes began; empty: it has none.
  void link(const std::string& process) {
    linked_ = process;
    if (process.empty() || has_linked(process)) return;
    linked_before_.push_back(process);
    if (linked_before_.size() > kKnownMax) linked_before_.pop_front();
  }
  // It asks for a link while the last one stands: both live.
  bool compete(const std::string& process) const {
    return !linked_.empty() && process != linked_ && has_linked(process);
  }
  // It is not the one that was linked last, by its own word: started again, or one that lives too.
  bool is_another(const std::string& process) const {
    return !process.empty() && !linked_.empty() && process != linked_;
  }
  bool stays_out(const std::string& process) const { return compete(process) && linked_ < process; }

 private:
  static constexpr std::size_t kKnownMax = 8;

  bool has_linked(const std::string& process) const {
    return std::ranges::find(linked_before_, process) != linked_before_.end();
  }

  std::string linked_;
  std::deque<std::string> linked_before_;
};

}  // namespace causeway::inter
