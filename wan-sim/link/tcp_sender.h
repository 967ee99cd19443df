// The sending half of a modelled TCP connection: what is under way, what was lost, when to send
// again. Pure. It owns the scoreboard; the queue and the wire are the link's (tcp_link.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "wan-sim/link/congestion.h"

namespace causeway::wan_sim {

// Bytes that left together.
struct Run {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t order = 0;    // of sending; a repeat has a later one
  std::uint64_t attempt = 0;  // repeats so far
  Time sent_at{0};
  double delivered = 0;  // packets, and when, as it was sent: for the delivery rate
  Time delivered_at{0};
  bool app_limited = false;
  bool dropped = false;  // will never arrive
  bool lost = false;     // the sender knows, and has not sent it again
  bool arrived = false;
  bool acked = false;
};

class TcpSender {
 public:
  TcpSender(Congestion kind, Time round_trip);

  // Bytes that may be sent now, by the window.
  std::uint64_t allowance() const;
  // By pacing: not before this.
  Time next_send_at() const { return next_send_at_; }

  // The first run that is to be sent again, if any.
  Run* next_lost();
  // New bytes, or a run sent again. The reference lasts until the next call.
  Run& send(std::uint64_t offset, std::uint64_t bytes, Time now, bool nothing_left);
  void send_again(Run& run, Time now);
  void drop(Run& run);  // it will not arrive
  // Divides a run behind its first `bytes`; both halves keep what they are.
  void split(std::uint64_t offset, std::uint64_t bytes);
  Run* find(std::uint64_t offset);

  void on_ack(std::uint64_t offset, Time now);
  // Nothing was heard for so long: a probe, then a timeout. Nothing under way: none.
  std::optional<Time> deadline() const;
  void on_deadline(Time now);

  std::deque<Run>& runs() { return runs_; }
  bool idle() const { return runs_.empty(); }
  // Before the first byte after idling.
  void restart_if_idle(Time now);

 private:
  std::deque<Run>::iterator place_of(std::uint64_t offset);
  void sample_round_trip(Time rtt);
  Time timeout() const;
  Time probe_after() const;
  void count_out(Run& run, Time now);
  void detect_losses(std::uint64_t before_order, Time now);
  void mark_lost(Run& run);
  void enter_recovery(Time now);
  void forget_done();

  std::unique_ptr<CongestionControl> control_;
  std::deque<Run> runs_;  // ascending offsets
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t lost_runs_ = 0;     // known to be lost
  std::uint64_t dropped_runs_ = 0;  // not known yet
  std::uint64_t next_order_ = 0;
  std::uint64_t round_ends_at_order_ = 0;
  std::optional<std::uint64_t> recovery_ends_at_order_;
  bool after_timeout_ = false;
  Time srtt_{0}, variation_{0};
  Time last_sent_{0};
  Time last_heard_{0};  // or last sent, if later
  int timeouts_ = 0;    // without an acknowledgement between
  bool probed_ = false;
  double delivered_ = 0;  // packets
  Time delivered_at_{0};
  Time next_send_at_{0};
  bool window_limited_ = false;
};

}  // namespace causeway::wan_sim
