// A model of BBR (Cardwell et al., 2016; Linux's tcp_bbr.c, version 1): paces at the bandwidth it
// measured, and does not answer to loss.
#include <algorithm>
#include <deque>

#include "wan-sim/link/congestion.h"

namespace causeway::wan_sim {
namespace {

using std::chrono::milliseconds;

constexpr double kHighGain = 2.885;  // 2 / ln 2
constexpr double kDrainGain = 1 / kHighGain;
constexpr double kWindowGain = 2;
constexpr double kCycle[] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};
constexpr double kPacingMargin = 0.99;
constexpr int kBandwidthRounds = 10;
constexpr double kFullGrowth = 1.25;
constexpr int kFullRounds = 3;
constexpr double kProbeWindow = 4;
constexpr Time kMinRttLife = std::chrono::seconds{10};
constexpr Time kProbeLength = milliseconds{200};
// Three bursts beyond the product, so that delayed acknowledgements do not starve the sender.
constexpr double kExtra = 6;

class Bbr : public CongestionControl {
 public:
  double window() const override;
  double packets_per_s() const override;
  void on_ack(const AckSample& sample) override;
  void on_loss(Time) override {}
  void on_recovered() override { timed_out_ = false; }
  void on_timeout(Time) override { timed_out_ = true; }
  void on_restart(Time, Time) override {}

 private:
  enum class Mode { startup, drain, probe_bandwidth, probe_rtt };

  double bandwidth() const;
  double product(double gain) const { return gain * bandwidth() * in_seconds(rtt_min_); }
  double pacing_gain() const;
  void update_bandwidth(const AckSample& sample);
  void update_full(const AckSample& sample);
  void update_mode(const AckSample& sample);
  void update_rtt(const AckSample& sample);
  void cycle(const AckSample& sample);
  void enter_probe_bandwidth(Time now);

  struct Best {
    int round;
    double packets_per_s;
  };
  Mode mode_ = Mode::startup;
  std::deque<Best> bests_;  // descending
  int round_ = 0;
  double startup_window_ = kInitialWindow;
  double full_bandwidth_ = 0;
  int full_rounds_ = 0;
  bool full_ = false;
  std::size_t phase_ = 0;
  Time phase_begin_{0};
  Time rtt_min_{0}, rtt_min_at_{0};
  Time probe_until_{0};
  bool timed_out_ = false;
};

double Bbr::bandwidth() const {
  return bests_.empty() ? 0 : bests_.front().packets_per_s;
}

double Bbr::window() const {
  if (timed_out_) return kProbeWindow;
  if (mode_ == Mode::probe_rtt) return kProbeWindow;
  if (!full_ && mode_ == Mode::startup) return startup_window_;
  return std::max(kProbeWindow, product(mode_ == Mode::drain ? kHighGain : kWindowGain) + kExtra);
}

double Bbr::pacing_gain() const {
  switch (mode_) {
    case Mode::startup:
      return kHighGain;
    case Mode::drain:
      return kDrainGain;
    case Mode::probe_bandwidth:
      return kCycle[phase_];
    case Mode::probe_rtt:
      return 1;
  }
  return 1;
}

double Bbr::packets_per_s() const {
  if (bests_.empty() || rtt_min_ == Time{0}) return 0;  // the first window leaves at once
  const double floor = kInitialWindow / in_seconds(rtt_min_);
  const double rate = pacing_gain() * bandwidth() * kPacingMargin;
  return full_ ? rate : std::max(rate, kHighGain * floor);
}

// The few packets of a look at the round trip say nothing of the bandwidth, and what is known of it
// does not age meanwhile.
void Bbr::update_bandwidth(const AckSample& sample) {
  if (mode_ == Mode::probe_rtt) return;
  if (sample.new_round) ++round_;
  while (!bests_.empty() && bests_.front().round + kBandwidthRounds <= round_ &&
         bests_.size() > 1) {
    bests_.pop_front();
  }
  if (sample.app_limited && sample.packets_per_s < bandwidth()) return;
  while (!bests_.empty() && bests_.back().packets_per_s <= sample.packets_per_s) bests_.pop_back();
  bests_.push_back({round_, sample.packets_per_s});
}

void Bbr::update_full(const AckSample& sample) {
  if (full_ || !sample.new_round || sample.app_limited) return;
  if (bandwidth() >= full_bandwidth_ * kFullGrowth) {
    full_bandwidth_ = bandwidth();
    full_rounds_ = 0;
    return;
  }
  full_ = ++full_rounds_ >= kFullRounds;
}

void Bbr::enter_probe_bandwidth(Time now) {
  mode_ = Mode::probe_bandwidth;
  phase_ = 2;
  phase_begin_ = now;
}

void Bbr::cycle(const AckSample& sample) {
  const bool over = sample.now - phase_begin_ > rtt_min_;
  const bool drained = phase_ == 1 && sample.in_flight <= product(1);
  if (!over && !drained) return;
  phase_ = (phase_ + 1) % std::size(kCycle);
  phase_begin_ = sample.now;
}

void Bbr::update_mode(const AckSample& sample) {
  if (mode_ == Mode::startup && full_) mode_ = Mode::drain;
  if (mode_ == Mode::drain && sample.in_flight - sample.acked <= product(1)) {
    enter_probe_bandwidth(sample.now);
  } else if (mode_ == Mode::probe_bandwidth) {
    cycle(sample);
  }
}

void Bbr::update_rtt(const AckSample& sample) {
  const bool expired = sample.now - rtt_min_at_ > kMinRttLife;
  if (rtt_min_ == Time{0} || sample.rtt <= rtt_min_ || expired) {
    rtt_min_ = sample.rtt;
    rtt_min_at_ = sample.now;
    if (expired && mode_ != Mode::probe_rtt && rtt_min_at_ != Time{0} && full_) {
      mode_ = Mode::probe_rtt;
      probe_until_ = sample.now + kProbeLength + sample.rtt;
    }
  }
  if (mode_ == Mode::probe_rtt && sample.now >= probe_until_) {
    rtt_min_at_ = sample.now;
    enter_probe_bandwidth(sample.now);
  }
}

void Bbr::on_ack(const AckSample& sample) {
  timed_out_ = false;
  update_bandwidth(sample);
  update_full(sample);
  if (rtt_min_at_ == Time{0}) rtt_min_at_ = sample.now;
  update_rtt(sample);
  update_mode(sample);
  if (!full_) startup_window_ += sample.acked;
}

}  // namespace

std::unique_ptr<CongestionControl> make_bbr() {
  return std::make_unique<Bbr>();
}

}  // namespace causeway::wan_sim
