#include "intra/worker/gathering.h"

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "intra/base/error.h"
#include "intra/worker/relay_instruction.h"

namespace causeway::intra {
namespace {

// Says what is being waited for: not for short waits, then now and again.
class WaitLog {
 public:
  void operator()(const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::seconds(10)) return;
    last_ = now;
    spdlog::info("waiting: {}", what);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

constexpr std::chrono::seconds kPatienceToStop{2};  // with the ranks that are missing
constexpr std::chrono::seconds kPatience{10};       // with a coordinator that does not answer

[[noreturn]] void stop() {
  throw std::system_error(Errc::interrupted, "stopped by a signal");
}

}  // namespace

bool Silence::is_long(const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (!what.starts_with(diloco::WorkerSession::kNobodyAnswers)) answered_at_ = now;
  return now - answered_at_ > kPatience;
}

Gathering::Gathering(const diloco::AttachRequest& request, const Attach& attach,
                     const MakeGroup& make_group, Interrupted interrupted, const Waiting& waiting)
    : interrupted_(std::move(interrupted)) {
  WaitLog log;
  const KeepWaiting keep_waiting = [&](const std::string& what) {
    log(what);
    if (waiting) waiting(what);
    return !interrupted_();
  };
  // A rank that is to stop joins the others first: they stop together, and save.
  using Clock = std::chrono::steady_clock;
  Clock::time_point began;
  const auto is_late = [&] { return Clock::now() - began > kPatienceToStop; };
  const auto given_up = [&] { return session_->lost() || (is_late() && interrupted_()); };
  while (!group_) {
    try {
      session_.reset();
      session_ = attach(request, keep_waiting);
      began = Clock::now();
      group_ = make_group(session_->attachment(), given_up);
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::operation_canceled) stop();
      if (error.code() != Errc::collective) throw;
      if (interrupted_()) stop();
      // Another rank left before the group stood: no failure of this one.
      if (!session_->lost()) throw;
      spdlog::info("{}; this worker attaches again", error.what());
    }
  }
}

diloco::Instruction Gathering::next(const Waiting& waiting, std::uint32_t steps) {
  Agreed agreed{};
  std::optional<diloco::Instruction> instruction;
  if (leads()) {
    instruction = ask(waiting, steps, agreed);
  } else {
    do {
      agreed = agree(session_->lost(), false);
    } while (!agreed.stop && !agreed.lost && !agreed.failed && !agreed.ready);
  }
  if (agreed.failed) fail_together();
  if (agreed.stop) stop();
  if (agreed.lost) {
    throw std::system_error(diloco::Errc::coordinator_lost, "a rank of this region is cut off");
  }
  return relay_instruction(*group_, std::move(instruction));
}

// Rank 0: while it waits for the coordinator, the other ranks wait with it, round by round of
// agree().
std::optional<diloco::Instruction> Gathering::ask(const Waiting& waiting, std::uint32_t steps,
                                                  Agreed& agreed) {
  std::exception_ptr broken_off;
  WaitLog log;
  const KeepWaiting keep_waiting = [&](const std::string& what) {
    // Nothing is thrown through the session: it may be in the middle of something.
    try {
      log(what);
      waiting(what);
      agreed = agree(false, false);
    } catch (...) {
      broken_off = std::current_exception();
    }
    return !broken_off && !agreed.stop && !agreed.lost && !agreed.failed;
  };
  std::optional<diloco::Instruction> instruction;
  if (well()) {
    try {
      instruction = session_->next(keep_waiting, steps);
    } catch (...) {
      if (broken_off) std::rethrow_exception(broken_off);
      if (agreed.stop || agreed.lost || agreed.failed) return {};
      note_failure();
    }
  }
  if (broken_off) std::rethrow_exception(broken_off);
  if (!agreed.stop && !agreed.lost && !agreed.failed)
    agreed = agree(lost_, instruction.has_value());
  return instruction;
}

bool Gathering::called_back() {
  bool called = false;
  tell([&called](diloco::WorkerSession& session) { called = session.called_back(); });
  const Agreed agreed = agree(leads() ? lost_ : session_->lost(), called);
  return agreed.stop || agreed.lost || agreed.failed || agreed.ready;
}

bool Gathering::tell(const std::function<void(diloco::WorkerSession&)>& call) {
  if (!leads() || !well()) return well();
  try {
    call(*session_);
  } catch (...) {
    note_failure();
  }
  return well();
}

void Gathering::tell_data_read(const diloco::DataDigests& data) {
  if (leads()) return void(tell([&](diloco::WorkerSession& session) { session.data_read(data); }));
  try {
    session_->data_read(data);
  } catch (const std::system_error&) {  // next() notices
  }
}

// In a handler: what the session threw.
void Gathering::note_failure() {
  try {
    throw;
  } catch (const std::system_error& error) {
    if (error.code() == diloco::Errc::coordinator_lost) {
      lost_ = true;
      return;
    }
    failure_ = std::current_exception();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Gathering::fail_together() {
  std::string reason;
  if (failure_) {
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
  const auto reasons = group_->all_gather(std::as_bytes(std::span(reason)));
  if (failure_) std::rethrow_exception(failure_);
  const auto& told = reasons.front();
  throw std::system_error(Errc::rank_failed,
                          "rank 0 of this region ended: " +
                              std::string(reinterpret_cast<const char*>(told.data()), told.size()));
}

Gathering::Agreed Gathering::agree(bool lost, bool ready) {
  std::array<float, 4> flags{interrupted_() ? 1.0F : 0.0F, lost ? 1.0F : 0.0F,
                             failure_ ? 1.0F : 0.0F, ready ? 1.0F : 0.0F};
  group_->all_reduce_sum(flags);
  return {flags[0] > 0, flags[1] > 0, flags[2] > 0, flags[3] > 0};
}

}  // namespace causeway::intra
