// The data connections of a session: which of them send in a burst, how fast, and which stand
// still.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <system_error>

#include "inter/base/limits.h"
#include "inter/blob/blob_sender.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/mesh.h"
#include "inter/route/link_meter.h"

namespace causeway::inter {

// Why data connections end where a path becomes crowded.
inline constexpr const char* kPathChanged = "the path has just become full, or free again";

class DataConnections {
 public:
  using Clock = Connection::Clock;

  // `restarts`: our TCP begins anew after every pause. The references outlive this.
  DataConnections(const MeshOptions& options, const std::string& peer, const BlobSender& outgoing,
                  LinkMeter& meter, bool restarts);

  ConnectionNumber add(std::shared_ptr<Connection> connection);
  void remove(ConnectionNumber number) { all_.erase(number); }
  std::size_t size() const { return all_.size(); }
  void close(std::error_code code, const std::string& reason);

  // So many bytes are to be sent: the first after a pause, or beside others.
  void begin_burst(std::uint64_t bytes, bool first);
  // Whether a connection sends in this burst.
  bool takes_part(ConnectionNumber number) const;
  // Whether it may take another chunk just now; an acknowledgement may change that.
  bool may_begin(ConnectionNumber number) const;
  // By what the meter knows now.
  // `answer`: how long heartbeats take just now.
  void set_pace(Clock::duration answer);
  // By TCP, since it was asked last.
  std::uint64_t newly_delivered_bytes();

  // Asks TCP how each is doing.
  void look(Clock::time_point now);
  // When a byte of any of them last arrived, or was confirmed by the peer's kernel, as look() saw.
  Clock::time_point last_progress() const { return last_progress_; }
  // To be called at each heartbeat. Once when the path became crowded, and once when it is free
  // again, those with something under way are ended: others carry on with it.
  void begin_anew(Clock::time_point now, Clock::duration answer);
  // After look(): the others carry on with what a connection that stands still has not delivered,
  // but for those that have been silent for as long.
  // `in_flight`: what that is, for the log. `answer`: how long heartbeats take just now.
  void drop_stalled(Clock::time_point now, Clock::duration answer, const std::string& in_flight);

 private:
  struct DataConnection {
    std::shared_ptr<Connection> connection;
    Clock::time_point waiting_since;       // when nothing was last seen to be under way on it
    std::uint32_t delivered_segments = 0;  // as TCP said when last looked at
    std::uint64_t acked_bytes = 0;         // likewise
    std::uint64_t confirmed = 0;           // chunks, by the peer itself, when last looked at
    // When that last grew, or nothing was under way; and what TCP had delivered by then.
    Clock::time_point unanswered_since;
    std::uint64_t acked_bytes_then = 0;
  };
  void pace();
  // Why it is to be dropped; empty if it is not.
  std::string why_stalled(ConnectionNumber number, const DataConnection& data,
                          Clock::time_point now, Clock::duration answer) const;
  std::string suspicion(ConnectionNumber number, const DataConnection& data) const;
  bool is_unanswered(const DataConnection& data, Clock::time_point now) const;
  void drop_silent(Clock::time_point since);
  std::size_t connections_for(std::uint64_t bytes) const;
  std::size_t senders() const;  // connections that send now

  const MeshOptions& options_;
  const std::string& peer_;
  const BlobSender& outgoing_;
  LinkMeter& meter_;
  bool restarts_;
  std::map<ConnectionNumber, DataConnection> all_;
  ConnectionNumber begun_ = 0;
  std::size_t sharing_ = kDataConnectionsMax;  // connections that send in this burst
  Clock::duration answer_{};                   // to heartbeats, when last told
  int quick_answers_ = 0;                      // in a row, on a crowded path
  bool crowded_ = false;                       // when it was last asked
  std::chrono::milliseconds answer_deadline_;  // doubles each time: a box may hold back a lot
  Clock::time_point last_progress_{};
};

}  // namespace causeway::inter
