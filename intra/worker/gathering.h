// One rank's place in its region, from one attach to the next: the session with the coordinator and
// the collective group with the other ranks. What happens to one rank (a signal, a lost session) is
// made known to all at the same point, so that all leave together.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "diloco/worker/worker_session.h"
#include "intra/collective/collective.h"

namespace causeway::intra {

using Interrupted = std::function<bool()>;
// Called with what is waited for, at least every second.
using Waiting = std::function<void(const std::string& what)>;
using KeepWaiting = diloco::WorkerSession::KeepWaiting;
// WorkerSession::attach, or a test's stand-in.
using Attach = std::function<std::unique_ptr<diloco::WorkerSession>(const diloco::AttachRequest&,
                                                                    const KeepWaiting&)>;
// The group of an attachment's ranks. `given_up`, which lives until it returns: it need not form
// any more, as the coordinator ended it or somebody asked this rank to stop.
using MakeGroup = std::function<std::unique_ptr<Collective>(const diloco::Attachment&,
                                                            const std::function<bool()>& given_up)>;

// How long nobody has answered for the region. Whoever finds a result then may take it that the
// coordinator has ended with the run; before, that it is still to be started.
class Silence {
 public:
  // Told of each wait, with what is waited for.
  bool is_long(const std::string& what);

 private:
  std::chrono::steady_clock::time_point answered_at_ = std::chrono::steady_clock::now();
};

class Gathering {
 public:
  // Attaches and forms the group of the ranks that are there; again, when one of them leaves
  // meanwhile. Throws Errc::interrupted, Errc::collective, and what attach throws.
  Gathering(const diloco::AttachRequest& request, const Attach& attach, const MakeGroup& make_group,
            Interrupted interrupted, const Waiting& waiting = {});

  Collective& group() { return *group_; }
  bool leads() const { return group_->rank() == 0; }
  const diloco::Attachment& attachment() const { return session_->attachment(); }

  // What to do next, the same on all ranks. `waiting` is called on rank 0 until it is known. On all
  // ranks at once it throws Errc::interrupted if any was asked to stop,
  // diloco::Errc::coordinator_lost if any lost its session, and what went wrong between rank 0 and
  // the coordinator otherwise: no rank waits for one that has ended. `steps`: as the session's.
  diloco::Instruction next(const Waiting& waiting, std::uint32_t steps = 0);

  // During a Continue, on all ranks alike: next() has something to say.
  bool called_back();

  // Calls the session, on rank 0 only. What goes wrong is kept for next() to tell everyone; the
  // result says if all is well.
  bool tell(const std::function<void(diloco::WorkerSession&)>& call);
  // Each rank of itself. Whoever is refused for it hears so when it next asks, or attaches again.
  void tell_data_read(const diloco::DataDigests& data);

 private:
  struct Agreed {
    bool stop, lost, failed, ready;
  };
  Agreed agree(bool lost, bool ready);
  std::optional<diloco::Instruction> ask(const Waiting& waiting, std::uint32_t steps,
                                         Agreed& agreed);
  void note_failure();
  bool well() const { return !lost_ && !failure_; }
  [[noreturn]] void fail_together();

  Interrupted interrupted_;
  std::unique_ptr<diloco::WorkerSession> session_;
  std::unique_ptr<Collective> group_;
  bool lost_ = false;
  std::exception_ptr failure_;  // of rank 0 alone
};

}  // namespace causeway::intra
