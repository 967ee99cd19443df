#include "wan-sim/base/loss.h"

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

enum class LossPurpose : std::uint64_t { transition = 1, loss = 2, again = 3 };

double draw(std::uint64_t key, LossPurpose purpose, std::uint64_t packet) {
  return uniform(mix(mix(key, static_cast<std::uint64_t>(purpose)), packet));
}

}  // namespace

LossProfile independent_loss(double probability) {
  return {.good = probability, .bad = 0, .enter = 0, .leave = 1};
}

LossProfile burst_loss(double probability, double burst_packets) {
  if (burst_packets <= 1) return independent_loss(probability);
  const double leave = 1 / burst_packets;
  // The stationary share of the bad state, enter / (enter + leave), is the loss.
  return {.good = 0, .bad = 1, .enter = leave * probability / (1 - probability), .leave = leave};
}

bool LossChain::loses_next(const LossProfile& profile) {
  const std::uint64_t packet = packet_++;
  if (profile.enter > 0 || bad_) {
    const double moved = draw(key_, LossPurpose::transition, packet);
    bad_ = bad_ ? moved >= profile.leave : moved < profile.enter;
  }
  const double probability = bad_ ? profile.bad : profile.good;
  return probability > 0 && draw(key_, LossPurpose::loss, packet) < probability;
}

bool LossChain::loses_again(const LossProfile& profile, std::uint64_t packet,
                            std::uint64_t attempt) const {
  return draw(mix(key_, attempt), LossPurpose::again, packet) < profile.mean();
}

}  // namespace causeway::wan_sim
