// NewReno (RFC 5681, 6582): one packet more per round trip, half after a loss.
#include "wan-sim/link/congestion.h"

namespace causeway::wan_sim {
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

}  // namespace causeway::wan_sim
