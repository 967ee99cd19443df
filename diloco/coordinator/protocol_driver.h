// The round protocol between its events and its actions: what happens goes in with the time, and
// what the protocol then wants is carried out in order. Its clock is here, too.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "diloco/coordinator/coordinator.h"
#include "diloco/round/round_protocol.h"
#include "inter/base/async.h"

namespace causeway::inter {
class Spool;
}

namespace causeway::diloco {

// What ends a coordinator's part in the run, whoever brings it about: an outcome, a failure that
// must reach main, or a disk that fails. From then on nothing is promised any more, and the
// protocol hears of nothing.
class CoordinatorEnd {
 public:
  explicit CoordinatorEnd(const asio::any_io_executor& executor) : changed_(executor) {}

  // Of several outcomes, and of several failures, the first counts.
  void finish(RunOutcome outcome);
  void fail(std::exception_ptr failure);           // of the disk, or for good
  void fail_for_good(std::exception_ptr failure);  // whatever it is
  // Runs `body`; what it throws is such a failure.
  template <typename Body>
  void guard(Body&& body) {
    try {
      body();
    } catch (...) {
      fail(std::current_exception());
    }
  }

  // What this coordinator knew of the run is not so: it opens its directory anew.
  void begin_again();

  bool going_on() const {
    return !outcome_ && !failure_ && storage_failure_.empty() && !begins_again_;
  }
  bool begins_again() const { return begins_again_; }
  const std::optional<RunOutcome>& outcome() const { return outcome_; }
  bool succeeded() const { return outcome_ && outcome_->exit_code == 0; }
  const std::exception_ptr& failure() const { return failure_; }  // for good
  bool storage_fails() const { return !storage_failure_.empty(); }
  const std::string& storage_failure() const { return storage_failure_; }

  // Everything is being closed: begin nothing new.
  void close() { closing_ = true; }
  bool closing() const { return closing_; }

  // Returns when something of the above has changed, or for no reason.
  asio::awaitable<void> change() { return changed_.wait(); }

 private:
  std::optional<RunOutcome> outcome_;
  std::exception_ptr failure_;
  std::string storage_failure_;
  bool closing_ = false;
  bool begins_again_ = false;
  inter::Signal changed_;
};

double system_wall_clock();  // in seconds since 1970

class ProtocolDriver {
 public:
  using CarryOut = std::function<void(const Action&)>;
  using WallClock = std::function<double()>;

  // `ending` and `spool` must outlive it. What `carry_out` throws goes to the former, and no later
  // action is done.
  ProtocolDriver(const asio::any_io_executor& executor, CoordinatorEnd& ending,
                 const inter::Spool& spool, ProtocolOptions options, PersistentState state,
                 CarryOut carry_out, WallClock wall_clock = system_wall_clock);

  // Does nothing once the end has come.
  void handle(const Event& event);
  // What nobody tells: how far the blobs are that the protocol wants.
  void report_progress();
  void stop_clock() { tick_.cancel(); }

  const RoundProtocol& protocol() const { return protocol_; }
  std::string waiting_for() const;  // one sentence; empty while the worker is busy

 private:
  void arm_tick();

  CoordinatorEnd& ending_;
  const inter::Spool& spool_;
  RoundProtocol protocol_;
  CarryOut carry_out_;
  WallClock wall_clock_;
  asio::steady_timer tick_;
};

}  // namespace causeway::diloco
