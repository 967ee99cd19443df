// Whether a process that ended is started again, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/run/region/process.h"

namespace causeway::run {

// How long to wait before the next start: 500 ms, doubling up to 30 s with every death in a row.
// Progress in between starts over; the eleventh death without any is the last.
class RestartPolicy {
 public:
  explicit RestartPolicy(std::chrono::milliseconds first_pause = kFirstPause)
      : first_pause_(first_pause) {}
  static constexpr std::chrono::milliseconds kFirstPause{500};

  // `progress` never falls while the process gets on. Nothing: it died too often without getting
  // on.
  std::optional<std::chrono::milliseconds> on_death(std::uint64_t progress);

 private:
  std::chrono::milliseconds first_pause_;
  std::uint32_t deaths_ = 0;
  std::uint64_t last_progress_ = 0;
};

inline constexpr int kNoRoom = 5;  // exit code of ours: a disk is full

// What it means that a process ended.
struct Ending {
  enum class Kind : std::uint8_t {
    done,
    crashed,  // it is started again
    final,    // the run cannot go on
  };
  Kind kind = Kind::done;
  int exit_code = 0;      // of the run, if final
  std::string note = {};  // follows "ended with exit code 3"
  bool mendable = false;  // if final: the saved state is good, and the run may go on with it
};
// Of our own programs: exit codes 2 to 4 say that starting it again will not help.
Ending ending_of_ours(const ExitStatus& status);

// Of one process of ours: what fails by itself each time, before anything was done, fails for a
// cause that is there from the start, such as a limit on open files.
class FirstStarts {
 public:
  static constexpr int kDeathsMax = 5;
  // `has_worked`: its region has done something.
  Ending judge(const ExitStatus& status, bool has_worked);

 private:
  int deaths_ = 0;  // in a row
};

// Of a user's program, which goes on from its last state: one that ends by itself at the same round
// again and again, without a failure, leaves the run on purpose, and another start leads nowhere.
class EarlyEnds {
 public:
  static constexpr int kEndsMax = 3;
  // `version`: of its region. What to say if it is not to be started again.
  std::optional<std::string> on_end(const ExitStatus& status, std::uint64_t version);

 private:
  int ends_ = 0;  // in a row
  std::uint64_t version_ = 0;
};

}  // namespace causeway::run
