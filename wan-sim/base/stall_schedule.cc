#include "wan-sim/base/stall_schedule.h"

#include <algorithm>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {

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
