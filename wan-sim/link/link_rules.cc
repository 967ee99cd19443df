#include "wan-sim/link/link_rules.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "wan-sim/base/chance.h"
#include "wan-sim/link/link_model.h"
#include "wan-sim/link/tcp_link.h"

namespace causeway::wan_sim {
namespace {

constexpr std::uint64_t kSegmentBytesMax = 64 * 1024;

// At most about a millisecond at the link's rate, so that connections take turns finely and
// arrivals are smooth; one packet at least, for a real link does not send less at a time either.
std::uint64_t segment_bytes_of(double rate_bytes_per_s) {
  const auto bytes = static_cast<std::uint64_t>(rate_bytes_per_s / 1000);
  return std::clamp(bytes, kPacketBytes, kSegmentBytesMax);
}

Time transmission_time(std::uint64_t bytes, double rate_bytes_per_s) {
  return Time(
      static_cast<Time::rep>(std::ceil(1e9 * static_cast<double>(bytes) / rate_bytes_per_s)));
}

}  // namespace

LinkRules::LinkRules(const LinkProfile& profile, std::uint64_t key)
    : stalls_(profile.stalls_per_s, profile.stall, key) {
  assert(profile.rate_bytes_per_s > 0);
  set_profile(profile, Time{0});
}

void LinkRules::set_profile(const LinkProfile& profile, Time now) {
  profile_ = profile;
  hold_or_release(profile.rate_bytes_per_s <= 0, now);
  if (held_ && profile.rate_bytes_per_s <= 0) return;  // sizes stay as they were
  segment_bytes_ = segment_bytes_of(profile.rate_bytes_per_s);
  // Two segments more than bandwidth x delay plus the queue: the one being sent, and one against
  // the caller's lateness.
  const double delay_s = in_seconds(profile.delay + profile.jitter.scale);
  window_bytes_ = static_cast<std::uint64_t>(profile.rate_bytes_per_s * delay_s) +
                  profile.queue_limit_bytes() + 2 * segment_bytes_;
}

void LinkRules::hold_or_release(bool wanted, Time now) {
  if (held_ == wanted) return;
  held_ = wanted;
  if (wanted)
    stalls_.hold(now);
  else
    stalls_.release(now);
}

LinkRules::Transmission LinkRules::transmission(Time begin, std::uint64_t bytes) {
  const Time begun = stalls_.done(begin, Time{0});
  if (begun >= kNever) return {kNever, kNever};
  return {begun, stalls_.done(begun, transmission_time(bytes, profile_.rate_bytes_per_s))};
}

Time LinkRules::delay_of(JitterChain& chain, std::uint64_t flow, std::uint64_t flow_key,
                         std::uint64_t offset) {
  if (profile_.jitter.scale.count() == 0 && profile_.jitter.shape != JitterShape::table) {
    return profile_.delay;
  }
  const bool on_grid = offset % segment_bytes_ == 0;
  const Time jitter =
      jitter_of(profile_.jitter, chain.draw(profile_.jitter, mix(flow_key, offset), on_grid));
  if (observer_ && on_grid) observer_({Decision::Kind::jitter, flow, offset, jitter});
  return std::max(Time{0}, profile_.delay + jitter);
}

void LinkRules::tell_loss(std::uint64_t flow, std::uint64_t packet) const {
  if (observer_) observer_({Decision::Kind::loss, flow, packet, Time{0}});
}

std::vector<Arrival> LinkRules::advance(Time now) {
  std::vector<Arrival> arrivals;
  advance(now, arrivals);
  return arrivals;
}

std::optional<Time> LinkRules::traverse(Time now, std::uint64_t key) {
  stalls_.start(now);
  if (black_hole_ || held_) return std::nullopt;
  if (profile_.loss.any() && uniform(key) < profile_.loss.mean()) return std::nullopt;
  return stalls_.done(now, Time{0}) + profile_.delay;
}

std::unique_ptr<LinkRules> make_link_rules(const LinkProfile& profile, std::uint64_t key) {
  if (profile.congestion == Congestion::none) return std::make_unique<LinkModel>(profile, key);
  return std::make_unique<TcpLink>(profile, key);
}

}  // namespace causeway::wan_sim
