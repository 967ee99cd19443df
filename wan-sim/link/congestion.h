// How much a modelled TCP sender may have under way. One file per algorithm; each follows Linux 6
// where that shows in transfer times, in packets of kPacketBytes.
#pragma once

#include <memory>

#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

// RFC 6928.
inline constexpr double kInitialWindow = 10;

struct AckSample {
  Time now{0};
  Time rtt{0};
  double acked = 0;          // packets newly delivered
  double in_flight = 0;      // before this acknowledgement
  double delivered = 0;      // packets, since the connection began
  double packets_per_s = 0;  // delivery rate over the life of the acknowledged packet
  bool app_limited = false;  // the sender had nothing to send for part of that
  bool new_round = false;    // the first acknowledgement of something sent after the last such
  bool window_limited = false;
  bool recovering = false;  // from loss; not after a timeout, when the window grows anew
};

class CongestionControl {
 public:
  virtual ~CongestionControl() = default;

  virtual double window() const = 0;         // packets
  virtual double packets_per_s() const = 0;  // pacing; 0: none
  virtual void on_ack(const AckSample& sample) = 0;
  virtual void on_loss(Time now) = 0;  // once per recovery
  virtual void on_recovered() = 0;
  virtual void on_timeout(Time now) = 0;
  // Sends again after it had nothing under way for `idle`.
  virtual void on_restart(Time idle, Time timeout) = 0;
};

std::unique_ptr<CongestionControl> make_reno();
std::unique_ptr<CongestionControl> make_cubic();
std::unique_ptr<CongestionControl> make_bbr();
// `kind` is not none.
std::unique_ptr<CongestionControl> make_congestion(Congestion kind);

// What loss-based algorithms share: slow start, and its restart after idling (RFC 5681 4.1 as Linux
// does it: halved once per timeout that passed, down to the initial window).
class LossBased : public CongestionControl {
 public:
  double window() const override { return window_; }
  double packets_per_s() const override { return 0; }
  void on_ack(const AckSample& sample) override;
  void on_loss(Time now) override;
  void on_recovered() override {}
  void on_timeout(Time now) override;
  void on_restart(Time idle, Time timeout) override;

 protected:
  bool in_slow_start() const { return window_ < threshold_; }
  void leave_slow_start() { threshold_ = window_; }
  virtual void watch_slow_start(const AckSample&) {}
  virtual void avoid_congestion(const AckSample& sample) = 0;
  virtual double window_after_loss() = 0;
  virtual void forget() {}  // after a timeout

  double window_ = kInitialWindow;
  double threshold_ = 1e9;
};

}  // namespace causeway::wan_sim
