#include "wan-sim/base/impairments.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

// Heavy tails have no end; a simulated one does.
constexpr double kJitterMaxS = 60;

double normal_distribution(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

double table_value_ms(const std::vector<double>& table, double u) {
  if (table.empty()) return 0;
  const double place = u * static_cast<double>(table.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, table.size() - 1);
  return std::lerp(table[below], table[above], place - static_cast<double>(below));
}

double value_s(const JitterProfile& profile, double z) {
  const double scale = std::chrono::duration<double>(profile.scale).count();
  switch (profile.shape) {
    case JitterShape::half_normal:
      return scale * std::abs(z);
    case JitterShape::constant:
      return scale;
    case JitterShape::uniform:
      return scale * (2 * normal_distribution(z) - 1);
    case JitterShape::normal:
      return scale * z;
    case JitterShape::lognormal:
      return scale * std::exp(profile.parameter * z);
    case JitterShape::pareto:  // 1 - Phi(z) = Phi(-z), without cancellation
      return scale * (std::pow(normal_distribution(-z), -1 / profile.parameter) - 1);
    case JitterShape::table:
      return table_value_ms(profile.table_ms, normal_distribution(z)) / 1000;
  }
  return 0;
}

Time from_s(double seconds) {
  return Time(static_cast<Time::rep>(1e9 * std::min(seconds, kJitterMaxS)));
}

}  // namespace

Time jitter_of(const JitterProfile& profile, double z) {
  return from_s(value_s(profile, z));
}

double JitterChain::draw(const JitterProfile& profile, std::uint64_t key, bool on_grid) {
  const double fresh = normal(key);
  const double rho = profile.correlation;
  const double before = on_grid ? grid_ : last_;
  const bool first = on_grid ? !grid_begun_ : !begun_;
  last_ = rho == 0 || first ? fresh : rho * before + std::sqrt(1 - rho * rho) * fresh;
  begun_ = true;
  if (on_grid) {
    grid_ = last_;
    grid_begun_ = true;
  }
  return last_;
}

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

StallSchedule::StallSchedule(double stalls_per_s, Time stall, std::uint64_t key)
    : stalls_per_s_(stall > Time{0} ? stalls_per_s : 0.0), stall_(stall), key_(key) {}

void StallSchedule::start(Time now) {
  if (started_) return;
  started_ = true;
  next_begin_ = now + draw_gap();
}

Time StallSchedule::draw_gap() {
  if (stalls_per_s_ <= 0) return Time{0};
  return Time(static_cast<Time::rep>(1e9 * exponential(mix(key_, drawn_++)) / stalls_per_s_));
}

Time StallSchedule::done(Time begin, Time work) {
  for (;;) {
    if (begin >= kNever) return kNever;
    draw_until(begin + work);
    const auto stall = std::find_if(intervals_.begin(), intervals_.end(),
                                    [&](const Interval& i) { return i.end > begin; });
    // Work that is done at the very moment a stall begins is done; work of no length may not begin
    // there.
    if (stall == intervals_.end() || begin + work < stall->begin) return begin + work;
    if (begin < stall->begin) {
      if (begin + work == stall->begin) return begin + work;
      work -= stall->begin - begin;
    }
    begin = stall->end;
  }
}

void StallSchedule::add(Time begin, Time length) {
  Interval added{begin, begin + length};
  const auto touches = [&](const Interval& i) {
    return i.begin <= added.end && i.end >= added.begin;
  };
  const auto first = std::find_if(intervals_.begin(), intervals_.end(),
                                  [&](const Interval& i) { return i.end >= added.begin; });
  const auto last = std::find_if_not(first, intervals_.end(), touches);
  if (first != last) {
    added = {std::min(added.begin, first->begin), std::max(added.end, std::prev(last)->end)};
  }
  intervals_.insert(intervals_.erase(first, last), added);
}

void StallSchedule::release(Time now) {
  if (intervals_.empty() || intervals_.back().end < kNever) return;
  intervals_.back().end = now;
  if (intervals_.back().begin >= now) intervals_.pop_back();
}

void StallSchedule::forget(Time before) {
  while (!intervals_.empty() && intervals_.front().end < before) intervals_.pop_front();
}

void StallSchedule::draw_until(Time time) {
  while (started_ && stalls_per_s_ > 0 && next_begin_ <= time) {
    add(next_begin_, stall_);
    next_begin_ += draw_gap();
  }
}

}  // namespace causeway::wan_sim
