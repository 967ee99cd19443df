#include "wan-sim/link/congestion.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace causeway::wan_sim {

void LossBased::on_ack(const AckSample& sample) {
  if (sample.recovering) return;
  watch_slow_start(sample);
  if (in_slow_start()) {
    // Linux grows while the window is less than twice what was out.
    if (window_ >= 2 * sample.in_flight) return;
    window_ = std::min(window_ + sample.acked, std::max(threshold_, window_));
    return;
  }
  if (sample.window_limited) avoid_congestion(sample);
}

void LossBased::on_loss(Time) {
  threshold_ = std::max(2.0, window_after_loss());
  window_ = threshold_;
}

void LossBased::on_timeout(Time) {
  threshold_ = std::max(2.0, window_after_loss());
  window_ = 1;
  forget();
}

void LossBased::on_restart(Time idle, Time timeout) {
  threshold_ = std::max(threshold_, 0.75 * window_);
  const double restart = std::min(kInitialWindow, window_);
  for (idle -= timeout; idle > Time{0} && window_ > restart; idle -= timeout) window_ /= 2;
  window_ = std::max(window_, restart);
}

std::unique_ptr<CongestionControl> make_congestion(Congestion kind) {
  switch (kind) {
    case Congestion::reno:
      return make_reno();
    case Congestion::cubic:
      return make_cubic();
    case Congestion::bbr:
      return make_bbr();
    case Congestion::none:
      break;
  }
  assert(false);
  return nullptr;
}

// NewReno (RFC 5681, 6582): one packet more per round trip, half after a loss.

namespace {

class Reno : public LossBased {
 protected:
  void avoid_congestion(const AckSample& sample) override { window_ += sample.acked / window_; }
  double window_after_loss() override { return window_ / 2; }
};

}  // namespace

std::unique_ptr<CongestionControl> make_reno() {
  return std::make_unique<Reno>();
}

// CUBIC (RFC 9438) with HyStart (Ha and Rhee, 2011), after Linux's tcp_cubic.c.

namespace {

using std::chrono::milliseconds;

constexpr double kC = 0.4;
constexpr double kBeta = 717.0 / 1024;
// Packets acknowledged per packet that Reno with this beta would add (RFC 9438 4.3).
constexpr double kRenoAcksPerPacket = 15.0 / 8;
// While no loss has shown the limit, at least 5 % per round trip.
constexpr double kAcksPerPacketUnknown = 20;
constexpr double kAcksPerPacketMin = 2;

constexpr double kHystartWindowMin = 16;
constexpr int kHystartSamples = 8;
constexpr Time kTrainGap = milliseconds{2};

class Cubic : public LossBased {
 public:
  void on_restart(Time idle, Time timeout) override {
    LossBased::on_restart(idle, timeout);
    if (epoch_) *epoch_ += idle;
  }

 protected:
  void watch_slow_start(const AckSample& sample) override {
    delay_min_ = delay_min_ == Time{0} ? sample.rtt : std::min(delay_min_, sample.rtt);
    if (!in_slow_start()) return;
    if (sample.new_round || round_begin_ == Time{0}) begin_round(sample.now);
    if (window_ >= kHystartWindowMin && (train_is_long(sample) || delay_has_grown(sample))) {
      leave_slow_start();
    }
  }
  void avoid_congestion(const AckSample& sample) override;
  double window_after_loss() override;
  void forget() override {
    epoch_.reset();
    window_max_ = 0;
    round_begin_ = Time{0};
  }

 private:
  void begin_round(Time now) {
    round_begin_ = last_in_train_ = now;
    round_rtt_ = Time::max();
    samples_ = 0;
  }
  // The acknowledgements of one window arrive closely spaced for half a round trip: the path is
  // half full at least.
  bool train_is_long(const AckSample& sample) {
    if (sample.now - last_in_train_ > kTrainGap) return false;
    last_in_train_ = sample.now;
    return sample.now - round_begin_ > delay_min_ / 2;
  }
  bool delay_has_grown(const AckSample& sample) {
    round_rtt_ = std::min(round_rtt_, sample.rtt);
    if (++samples_ < kHystartSamples) return false;
    return round_rtt_ >
           delay_min_ + std::clamp<Time>(delay_min_ / 8, milliseconds{4}, milliseconds{16});
  }

  std::optional<Time> epoch_;
  double window_max_ = 0, origin_ = 0, k_s_ = 0;
  double reno_window_ = 0;
  Time delay_min_{0};

  Time round_begin_{0}, last_in_train_{0};
  Time round_rtt_ = Time::max();
  int samples_ = 0;
};

void Cubic::avoid_congestion(const AckSample& sample) {
  if (!epoch_) {
    epoch_ = sample.now;
    reno_window_ = window_;
    k_s_ = window_max_ > window_ ? std::cbrt((window_max_ - window_) / kC) : 0;
    origin_ = std::max(window_max_, window_);
  }
  const double t = in_seconds(sample.now - *epoch_ + delay_min_) - k_s_;
  const double target = origin_ + kC * t * t * t;
  double acks_per_packet = target > window_ ? window_ / (target - window_) : 100 * window_;
  if (window_max_ == 0) acks_per_packet = std::min(acks_per_packet, kAcksPerPacketUnknown);
  reno_window_ += sample.acked / (kRenoAcksPerPacket * window_);
  if (reno_window_ > window_) {
    acks_per_packet = std::min(acks_per_packet, window_ / (reno_window_ - window_));
  }
  window_ += sample.acked / std::max(acks_per_packet, kAcksPerPacketMin);
}

double Cubic::window_after_loss() {
  epoch_.reset();
  // Fast convergence: who loses before reaching its last maximum gives way to others.
  window_max_ = window_ < window_max_ ? window_ * (1 + kBeta) / 2 : window_;
  return window_ * kBeta;
}

}  // namespace

std::unique_ptr<CongestionControl> make_cubic() {
  return std::make_unique<Cubic>();
}

}  // namespace causeway::wan_sim
