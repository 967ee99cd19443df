// The ranks of a region that have attached: who is waited for, when the group stands without them,
// and who is told what meanwhile. One thread, that of the executor given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>

#include "diloco/worker/roster.h"
#include "diloco/worker/worker_connection.h"
#include "diloco/worker/worker_server.h"
#include "inter/base/async.h"

namespace causeway::diloco {

// One worker's connection, and what it said of itself.
struct RankSession : WorkerConnection {
  RankSession(inter::TaskGroup& tasks, Socket socket, std::unique_ptr<WorkerStream> stream,
              std::string forbidden_in)
      : WorkerConnection(tasks, std::move(socket), std::move(stream)),
        forbidden(std::move(forbidden_in)) {}
  std::string forbidden;  // why it may not attach; empty: it may
  std::optional<AttachRequest> request;
};

class RankGroup {
 public:
  using SessionPointer = std::shared_ptr<RankSession>;

  // The references outlive this. `handler` is told who gathered and who is lost.
  RankGroup(asio::any_io_executor executor, const WorkerServerOptions& options,
            WorkerServerHandler& handler);

  // Why a rank may not enter beside those that are there; empty: it may.
  std::string objection(const AttachRequest& request) const;
  // Of a session that has a request. Sessions that end by it are closed.
  void enter(const SessionPointer& session);
  void leave(const SessionPointer& session);
  // Between two instructions everybody's state is the same: the time to take in those who wait.
  // True: the group ended for that.
  bool take_in_who_waits();
  // The handler is told nothing from here on.
  void disband();

  bool stands() const { return roster_.stands(); }
  // Of the group that stands, or forms; the first one leads.
  const Roster<SessionPointer>::Members& members() const { return roster_.members(); }
  bool is_led_by(const SessionPointer& session) const;

 private:
  void dismiss(const std::vector<SessionPointer>& leaving);
  void go_on();
  std::vector<std::uint32_t> missing() const;
  void tell_who_is_missing();
  void tell_who_waits();

  asio::any_io_executor executor_;
  const WorkerServerOptions& options_;
  WorkerServerHandler* handler_;  // null once disbanded
  Roster<SessionPointer> roster_;
  bool stood_ = false;                       // when it was looked at last
  std::optional<inter::Deadline> patience_;  // with the ranks that are missing
};

}  // namespace causeway::diloco
