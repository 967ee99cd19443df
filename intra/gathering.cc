#include "intra/gathering.h"

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/error.h"
#include "intra/error.h"
#include "intra/instruction_relay.h"

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

[[noreturn]] void stop() {
  throw std::system_error(Errc::interrupted, "stopped by a signal");
}

}  // namespace

Gathering::Gathering(const WorkerOptions& options, const diloco::AttachRequest& request,
                     const Attach& attach, Interrupted interrupted)
    : interrupted_(std::move(interrupted)) {
  WaitLog log;
  try {
    session_ = attach(request, [&](const std::string& what) {
      log(what);
      return !interrupted_();
    });
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::operation_canceled) stop();
    throw;
  }
  group_ = make_collective({.directory = options.directory / "gloo",
                            .generation = session_->attachment().generation,
                            .rank = options.rank,
                            .world = options.world});
}

diloco::Instruction Gathering::next(const std::function<void()>& waiting) {
  Agreed agreed{};
  std::optional<diloco::Instruction> instruction;
  if (leads()) {
    instruction = ask(waiting, agreed);
  } else {
    do {
      agreed = agree(session_->lost(), false);
    } while (!agreed.stop && !agreed.lost && !agreed.ready);
  }
  if (agreed.stop) stop();
  if (agreed.lost) {
    throw std::system_error(diloco::Errc::coordinator_lost, "a rank of this region is cut off");
  }
  return relay(*group_, std::move(instruction));
}

// Rank 0: while it waits for the coordinator, the other ranks wait with it, round by round of
// agree().
std::optional<diloco::Instruction> Gathering::ask(const std::function<void()>& waiting,
                                                  Agreed& agreed) {
  std::exception_ptr failure;
  WaitLog log;
  const KeepWaiting keep_waiting = [&](const std::string& what) {
    // Nothing is thrown through the session: it may be in the middle of something.
    try {
      log(what);
      waiting();
      agreed = agree(false, false);
    } catch (...) {
      failure = std::current_exception();
    }
    return !failure && !agreed.stop && !agreed.lost;
  };
  std::optional<diloco::Instruction> instruction;
  if (!lost_) {
    try {
      instruction = session_->next(keep_waiting);
    } catch (const std::system_error& error) {
      if (failure) std::rethrow_exception(failure);
      if (agreed.stop || agreed.lost) return {};
      if (error.code() != diloco::Errc::coordinator_lost) throw;
      lost_ = true;
    }
  }
  if (failure) std::rethrow_exception(failure);
  if (!agreed.stop && !agreed.lost) agreed = agree(lost_, instruction.has_value());
  return instruction;
}

bool Gathering::tell(const std::function<void(diloco::WorkerSession&)>& call) {
  if (!leads() || lost_) return !lost_;
  try {
    call(*session_);
  } catch (const std::system_error& error) {
    if (error.code() != diloco::Errc::coordinator_lost) throw;
    lost_ = true;
  }
  return !lost_;
}

Gathering::Agreed Gathering::agree(bool lost, bool ready) {
  std::array<float, 3> flags{interrupted_() ? 1.0F : 0.0F, lost ? 1.0F : 0.0F, ready ? 1.0F : 0.0F};
  group_->all_reduce_sum(flags);
  return {flags[0] > 0, flags[1] > 0, flags[2] > 0};
}

}  // namespace causeway::intra
