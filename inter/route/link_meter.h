// What a link can do, measured from what goes over it anyway: round trips from heartbeats, the rate
// from the acknowledgements of transfers, its peak and loss from TCP. Lives as long as the peer,
// over reconnections. Pure; times are given. Internal to inter.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "inter/base/tcp.h"
#include "inter/blob/blob_sender.h"

namespace causeway::inter {

class LinkMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  void on_round_trip(std::chrono::microseconds sample, Time now);
  // A burst begins: something leaves, and nothing was under way before.
  void on_burst(Time now);
  // Bytes of transfers that the peer confirmed; `idle`: nothing is under way any more.
  void on_acknowledged(std::uint64_t bytes, bool idle, Time now);
  void on_tcp(ConnectionNumber connection, const TcpFigures& figures);
  // Within a burst: bytes that TCP delivered over all connections in a time of about a round trip,
  // gaps or not. Chunks are too coarse for that: those of many connections end at once. What still
  // grows says how fast TCP begins, not what the path can do.
  void on_delivered(std::uint64_t bytes, Duration time);
  // Likewise, while something is under way, be it little. `answer`: how long heartbeats take just
  // now, or are unanswered.
  void on_busy(std::uint64_t bytes, Duration time, Duration answer, Time now);
  void on_quiet();  // the burst is over
  void on_connection_lost(ConnectionNumber connection) { seen_.erase(connection); }
  void on_new_session() { seen_.clear(); }  // which numbers its connections anew

  std::chrono::microseconds round_trip() const { return round_trip_; }  // smoothed, 0: unknown
  // Over all connections, and the fastest single one. 0: unknown.
  double rate_bytes_per_s() const { return rate_; }
  double stream_rate_bytes_per_s() const { return stream_rate_; }
  // What short bursts reached that ended within a few round trips: the path carries so much, and
  // perhaps far more. Smoothed; 0: unknown.
  double at_least_bytes_per_s() const { return at_least_; }
  // The rate below which this share of the last 64 measurements lies. 0: unknown.
  double rate_quantile_bytes_per_s(double share) const;
  // Share of segments sent again that the peer did not have already, smoothed.
  double loss() const { return loss_; }
  // What is sent fills the queue of a slow path, or did some minutes ago. Each connection has a few
  // segments under way, however little there is room for: several only lose each other's, and
  // control's. It ends when a rate is measured that no slow path has.
  bool is_crowded(Time now) const { return now < crowded_until_; }
  void end_crowd();  // something else shows that the path is free
  std::uint32_t segment_bytes() const { return segment_bytes_; }  // of full ones; 0: unknown

  // How fast to send at most, all connections together, once bursts were seen to overflow the
  // queue: about the peak of the last ones, less after each that lost segments, more after each
  // that did not, until there is no limit any more; nor is there one where even slow bursts lose.
  // 0: no limit.
  double pacing_bytes_per_s() const;
  // The same for one that sends alone on a crowded path, while heartbeats wait in its queue: twice
  // of what came of it last. What TCP knows of the path may be of before.
  double crowded_pacing_bytes_per_s(Duration answer) const;

  // How long a transfer may stand still: mean and deviation of the times between acknowledgements,
  // as TCP sets its retransmission timer; between a quarter of the longest and the longest.
  // `answer` as above: so long is the queue.
  Duration stall_deadline(Duration longest, Duration answer) const;

 private:
  void begin_window(Time now);
  void end_window(Time now);
  void end_short_burst(Time now);
  void add_rate(double bytes_per_s);
  double path_round_trip_s() const;
  bool limited() const;
  void end_burst();
  void adjust_headroom(bool lost);

  std::chrono::microseconds round_trip_{0};
  Time crowded_until_{};
  std::deque<double> rates_;  // newest last
  double rate_ = 0, at_least_ = 0, stream_rate_ = 0, loss_ = 0;
  double peak_ = 0, burst_peak_ = 0, last_sample_ = 0;
  double burst_bytes_ = 0, burst_s_ = 0;  // of all its samples
  double busy_bytes_ = 0, busy_s_ = 0;    // with something under way all the time
  int slow_windows_ = 0;                  // of these, in a row
  double headroom_ = 0;                   // over the peak; 0: nothing was lost yet
  std::optional<bool> lost_;              // by what TCP said since the last burst ended
  std::uint32_t segment_bytes_ = 0;
  int free_bursts_ = 0;  // that are not limited whatever they lose
  bool bursting_ = false;
  Time window_began_{}, last_ack_{};
  std::uint64_t window_bytes_ = 0;
  struct ShortBurst {
    Time began{};
    std::uint64_t bytes = 0;  // confirmed
    bool measured = false;    // in windows
  };
  std::optional<ShortBurst> short_burst_;  // the present one
  struct SlowBursts {
    int count = 0;
    double bytes = 0, seconds = 0;
  };
  SlowBursts slow_bursts_;  // in a row
  double gap_s_ = 0, gap_deviation_s_ = 0;
  struct Segments {
    std::uint64_t sent = 0, lost = 0;
    std::chrono::microseconds round_trip_min{0};
  };
  std::map<ConnectionNumber, Segments> seen_;
};

}  // namespace causeway::inter
