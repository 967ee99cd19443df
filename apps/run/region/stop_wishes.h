// What the signals that ask for an end (own_process.h) wish for, of several in a row.
#pragma once

#include <chrono>
#include <optional>

namespace causeway::run {

class StopWishes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Wish { clean_end, end_at_once };

  // The first one asks for a clean end. Every SIGINT or SIGTERM after the first of these asks for
  // an end at once. Two hurry nobody. SIGHUP: a terminal that closes sends it twice, once by its
  // shell. SIGTERM within kRepeats of another: who ends a job sends it to all of its processes, and
  // a launcher among them sends it on.
  std::optional<Wish> heed(int signal, Time now);

  static constexpr std::chrono::seconds kRepeats{5};

 private:
  bool asked_ = false;          // for a clean end
  bool asked_by_name_ = false;  // by another signal than SIGHUP
  std::optional<Time> terminated_;
};

}  // namespace causeway::run
