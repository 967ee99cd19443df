// The round protocol between its events and its actions: what happens goes in with the time, and
// what the protocol then wants is carried out in order. Its clock is here, too.
#pragma once

#include <functional>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>

#include "diloco/coordinator/ending.h"
#include "diloco/round/round_protocol.h"

namespace causeway::inter {
class Spool;
}

namespace causeway::diloco {

class ProtocolDriver {
 public:
  using CarryOut = std::function<void(const Action&)>;

  // `ending` and `spool` must outlive it. What `carry_out` throws goes to the former, and no later
  // action is done.
  ProtocolDriver(const asio::any_io_executor& executor, Ending& ending, const inter::Spool& spool,
                 ProtocolOptions options, PersistentState state, CarryOut carry_out);

  // Does nothing once the end has come.
  void handle(const Event& event);
  // What nobody tells: how far the blobs are that the protocol wants.
  void report_progress();
  void stop_clock() { tick_.cancel(); }

  const RoundProtocol& protocol() const { return protocol_; }
  std::string waiting_for() const;  // one sentence; empty while the worker is busy

 private:
  void arm_tick();

  Ending& ending_;
  const inter::Spool& spool_;
  RoundProtocol protocol_;
  CarryOut carry_out_;
  asio::steady_timer tick_;
};

}  // namespace causeway::diloco
