// What a region's coordinator still owes its worker when the region's part in the run is over. If
// it may not take part any more, the worker hears why. If the run is over, the region signs with
// which state the worker holds its end, and waits until the worker has its result.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <asio/awaitable.hpp>

#include "diloco/coordinator/contribution_intake.h"
#include "diloco/coordinator/coordinator_context.h"
#include "diloco/worker/worker_server.h"

namespace causeway::diloco {

struct WorkerSeen {
  Progress progress;                               // its last report
  Applied holds;                                   // as it said last
  bool is_attached = false;                        // now
  bool has_attached = false;                       // since this process began
  std::chrono::steady_clock::time_point heard_at;  // last
};

class WorkerFarewell {
 public:
  using Apply = std::function<void(const CommitRecord& record)>;

  // `server`: none until it listens. `apply`: has the worker apply a round once more.
  WorkerFarewell(CoordinatorContext context, const WorkerSeen& worker,
                 std::optional<WorkerServer>& server, ContributionIntake& intake, Apply apply);

  // Tells it why it may not take part any more, if that is the outcome's reason.
  void refuse(const RunOutcome& outcome);
  // As above; but a worker that is away is waited for a moment, as it may come back to hear it.
  // Whoever comes later finds a note.
  asio::awaitable<void> await_return_of_refused();

  // Signs that the worker holds the end, and tells it to finish.
  void finish(const Applied& end);
  // The ranks gathered anew, and say themselves what they hold.
  void begin_gathering() { unsigned_ = false; }
  // The run is over, and the worker asks what to do.
  void see_off();
  // The run is over: waits until the worker has its result, which may have died before and come
  // back for it. False: it was waited for in vain.
  // `show`: what is waited for, now and again.
  asio::awaitable<bool> say_goodbye(std::function<void(const std::string& waiting)> show);
  // One that is away is not waited for any longer.
  void cut_short() { cut_short_ = true; }

 private:
  void leave_word(const RunOutcome& outcome);
  bool has_result();
  bool sign(const Applied& end);
  bool ended_otherwise(const Applied& end);
  bool holds_what_was_agreed() const;

  CoordinatorContext context_;
  const WorkerSeen& worker_;
  std::optional<WorkerServer>& server_;
  ContributionIntake& intake_;
  Apply apply_;
  bool heard_refusal_ = false;
  bool cut_short_ = false;
  bool unsigned_ = false;       // the disk would not take that it holds the end
  bool holds_another_ = false;  // than the run agreed on
  std::chrono::steady_clock::time_point look_for_result_at_;  // again
};

}  // namespace causeway::diloco
