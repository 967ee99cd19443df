// The ranks of a region that have attached: who is waited for, when the group stands without them,
// and who is told what meanwhile. One thread, that of the executor given.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/generic/stream_protocol.hpp>

#include "diloco/worker/stream/worker_stream.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_server.h"
#include "inter/base/async.h"

namespace causeway::diloco {

// The coordinator's end of one worker's connection: frames that came, and those on their way out.
// One thread, the executor of the tasks given.
class WorkerConnection : public std::enable_shared_from_this<WorkerConnection> {
 public:
  using Socket = asio::generic::stream_protocol::socket;

  // `tasks` outlives the open socket.
  WorkerConnection(inter::TaskGroup& tasks, Socket socket, std::unique_ptr<WorkerStream> stream);

  bool is_open() const { return socket_.is_open(); }
  void close();

  // Returns when bytes may be there; false: it was closed.
  asio::awaitable<bool> readable();
  // Takes what is there; false: the worker closed its end, or the connection broke. Throws
  // Errc::malformed for bytes that are none of ours.
  bool receive();
  std::optional<Frame> next() { return stream_->next(); }

  // What the socket takes is written now, the rest when it takes more. When nothing can be sent any
  // more the worker sees the end, as does receive() then; when the bytes to send cannot be read,
  // the connection is closed.
  void send(const worker_wire::CoordinatorMessage& message,
            std::vector<Descriptor> descriptors = {});
  // Nothing is to come after it, from either side.
  void send_last(const worker_wire::CoordinatorMessage& message);
  // The same to somebody who was not heard. Returns when it has closed its end: what it says
  // meanwhile is discarded, and would otherwise end in a reset that overtakes the message.
  asio::awaitable<void> turn_away(const worker_wire::CoordinatorMessage& message);

 private:
  void flush();
  void end_sending(const std::system_error& why);
  static asio::awaitable<void> flush_later(std::shared_ptr<WorkerConnection> self);

  inter::TaskGroup& tasks_;
  Socket socket_;
  std::unique_ptr<WorkerStream> stream_;
  bool writing_ = false;  // flush_later() is under way
  bool last_sent_ = false;
  bool sends_no_more_ = false;  // what is to be sent is dropped, until the worker sees the end
};

// Which ranks of a region make up its group: those that came while none stood. Whoever comes while
// a group stands waits for its end. Pure: it is told who comes and goes, and answers with those
// whose sessions end by that.

// Member: compares equal to itself alone.
template <typename Member>
class Roster {
 public:
  using Members = std::map<std::uint32_t, Member>;  // by the rank that is configured
  using Leaving = std::vector<Member>;

  bool stands() const { return stands_; }
  // Of the group that stands, or forms.
  const Members& members() const { return members_; }
  // They came while it stands.
  const Members& waiting() const { return waiting_; }

  // One that comes again takes its own place; if that was in the group that stands, the group ends.
  Leaving enter(std::uint32_t rank, Member member) {
    Leaving leaving;
    if (stands_ && members_.contains(rank)) leaving = dissolve();
    Members& where = stands_ ? waiting_ : members_;
    if (const auto old = where.find(rank); old != where.end()) leaving.push_back(old->second);
    where[rank] = std::move(member);
    return leaving;
  }

  // A group that stood ends for all.
  Leaving leave(std::uint32_t rank, const Member& member) {
    if (remove(waiting_, rank, member) || !remove(members_, rank, member) || !stands_) return {};
    return dissolve();
  }

  // The members are the group.
  void stand() { stands_ = true; }

  // Ends the group; those who waited are the first of the next one.
  Leaving dissolve() {
    Leaving leaving;
    for (auto& [rank, member] : members_) leaving.push_back(std::move(member));
    members_ = std::exchange(waiting_, {});
    stands_ = false;
    return leaving;
  }

 private:
  static bool remove(Members& from, std::uint32_t rank, const Member& member) {
    const auto found = from.find(rank);
    if (found == from.end() || found->second != member) return false;
    from.erase(found);
    return true;
  }

  Members members_, waiting_;
  bool stands_ = false;
};

// One worker's connection, and what it said of itself.
struct RankSession : WorkerConnection {
  RankSession(inter::TaskGroup& tasks, Socket socket, std::unique_ptr<WorkerStream> stream,
              std::string forbidden_in)
      : WorkerConnection(tasks, std::move(socket), std::move(stream)),
        forbidden(std::move(forbidden_in)) {}
  std::string forbidden;                     // why it is turned away; empty: it may attach
  std::optional<AttachRequest> request;      // once it has attached
  std::optional<inter::Deadline> to_attach;  // until then
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
  // The group did what it is for.
  void note_progress() { left_first_.clear(); }
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
  void note_end_by(std::uint32_t rank);
  void go_on();
  std::vector<std::uint32_t> missing() const;
  void tell_who_is_missing();
  void tell_who_waits();

  asio::any_io_executor executor_;
  const WorkerServerOptions& options_;
  WorkerServerHandler* handler_;  // null once disbanded
  Roster<SessionPointer> roster_;
  bool stood_ = false;  // when it was looked at last
  // Of the groups that ended since the last progress: which rank left first, and how often.
  std::map<std::uint32_t, unsigned> left_first_;
  std::optional<inter::Deadline> patience_;  // with the ranks that are missing
};

}  // namespace causeway::diloco
