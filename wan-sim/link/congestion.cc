#include "wan-sim/link/congestion.h"

#include <algorithm>
#include <cassert>

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

}  // namespace causeway::wan_sim
