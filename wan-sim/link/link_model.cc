#include "wan-sim/link/link_model.h"

#include <algorithm>
#include <cassert>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {

LinkModel::LinkModel(const LinkProfile& profile, std::uint64_t key) : LinkRules(profile, key) {
  assert(profile.congestion == Congestion::none);
}

std::uint64_t LinkModel::add_flow(std::uint64_t key) {
  Flow flow;
  flow.key = key;
  flow.loss = LossChain(mix(key, kLossKey));
  return flows_.add(flow);
}

void LinkModel::remove_flow(std::uint64_t flow) {
  flows_.remove(flow);
  std::erase(turns_, flow);
  if (served_ == flow) served_.reset();
  next_known_ = false;
}

void LinkModel::offer(std::uint64_t flow, std::uint64_t bytes, Time now) {
  transmit_until(now);
  assert(flows_.at(flow).ending == StreamEnd::none);
  flows_.at(flow).queued_bytes += bytes;
  enqueue(flow, now);
}

void LinkModel::end(std::uint64_t flow, StreamEnd ending, Time now) {
  transmit_until(now);
  flows_.at(flow).ending = ending;
  enqueue(flow, now);
}

void LinkModel::stall(Time now, Time length) {
  transmit_until(now);
  stalls_.add(now, length);
  next_known_ = false;
}

// Whoever knows no congestion does not wait for timeouts either: it goes on at the end.
void LinkModel::black_hole(bool on, Time now) {
  transmit_until(now);
  set_black_hole(on);
  hold_as_needed(now);
}

void LinkModel::change(const LinkProfile& profile, Time now) {
  transmit_until(now);
  set_profile(profile, now);
  hold_as_needed(now);
}

void LinkModel::hold_as_needed(Time now) {
  hold_or_release(black_hole_ || profile_.rate_bytes_per_s <= 0, now);
  next_known_ = false;
}

void LinkModel::advance(Time now, std::vector<Arrival>& arrivals) {
  transmit_until(now);
  stalls_.forget(std::min(now, free_at_));
  for (const InFlight* first = first_in_flight(); first && first->arrival.at <= now;
       first = first_in_flight()) {
    if (flows_.find(first->arrival.flow)) arrivals.push_back(first->arrival);
    take_first_in_flight();
  }
}

const LinkModel::InFlight* LinkModel::first_in_flight() const {
  if (out_of_order_.empty()) return in_order_.empty() ? nullptr : &in_order_.front();
  if (in_order_.empty() || in_order_.front() > out_of_order_.top()) return &out_of_order_.top();
  return &in_order_.front();
}

void LinkModel::take_first_in_flight() {
  if (first_in_flight() == (in_order_.empty() ? nullptr : &in_order_.front()))
    in_order_.pop_front();
  else
    out_of_order_.pop();
}

std::optional<Time> LinkModel::next_event() {
  std::optional<Time> next;
  if (const InFlight* first = first_in_flight()) next = first->arrival.at;
  // A segment not yet begun cannot arrive sooner than this. Waking for arrivals alone, not for each
  // departure, halves the wake-ups; nobody can tell, because departures are computed from their own
  // times.
  if (const auto& segment = next_segment(); segment && segment->time.end < kNever) {
    const bool only_later = profile_.jitter.shape == JitterShape::half_normal;
    const Time soonest = only_later ? segment->time.end + profile_.delay : segment->time.end;
    next = next ? std::min(*next, soonest) : soonest;
  }
  return next;
}

std::optional<Time> LinkModel::idle_since(std::uint64_t, Time now) {
  transmit_until(now);
  if (next_flow() || free_at_ > now) return std::nullopt;
  return free_at_;
}

void LinkModel::enqueue(std::uint64_t flow, Time now) {
  stalls_.start(now);
  if (!next_flow()) free_at_ = std::max(free_at_, now);
  Flow& state = flows_.at(flow);
  if (!state.waiting && served_ != flow) turns_.push_back(flow);
  state.waiting = true;
  next_known_ = false;
  transmit_until(now);
}

std::optional<std::uint64_t> LinkModel::next_flow() {
  if (!turns_.empty()) return turns_.front();
  return served_ && flows_.at(*served_).waiting ? served_ : std::nullopt;
}

const std::optional<LinkModel::Segment>& LinkModel::next_segment() {
  if (std::exchange(next_known_, true)) return next_;
  next_.reset();
  const auto id = next_flow();
  if (!id) return next_;
  const Flow& flow = flows_.at(*id);
  // Segments end on a grid of offsets, so that the same bytes make the same segments, and draw the
  // same jitter, again.
  const std::uint64_t bytes =
      std::min(flow.queued_bytes, segment_bytes_ - flow.offset % segment_bytes_);
  const StreamEnd ending = bytes == flow.queued_bytes ? flow.ending : StreamEnd::none;
  next_ = Segment{bytes, ending, transmission(free_at_, bytes)};
  return next_;
}

void LinkModel::transmit_until(Time now) {
  while (next_segment() && next_->time.begin <= now) transmit(*next_);
}

// A packet that is lost, and lost again, comes that many round trips later.
Time LinkModel::time_lost(std::uint64_t id, Flow& flow, std::uint64_t bytes) {
  if (!profile_.loss.any()) return Time{0};
  std::uint64_t round_trips = 0;
  while (flow.loss.packets() * kPacketBytes < flow.offset + bytes) {
    const std::uint64_t packet = flow.loss.packets();
    if (!flow.loss.loses_next(profile_.loss)) continue;
    tell_loss(id, packet);
    std::uint64_t attempts = 1;
    while (flow.loss.loses_again(profile_.loss, packet, attempts)) ++attempts;
    round_trips = std::max(round_trips, attempts);
  }
  return static_cast<Time::rep>(round_trips) * round_trip();
}

void LinkModel::transmit(const Segment& planned) {
  const Segment segment = planned;
  const std::uint64_t id = *next_flow();
  Flow& flow = flows_.at(id);
  if (!turns_.empty()) turns_.pop_front();
  if (served_ && served_ != id && flows_.at(*served_).waiting) turns_.push_back(*served_);
  served_ = id;
  const Time lost = time_lost(id, flow, segment.bytes);
  const Time arrival = segment.time.end + delay_of(flow.jitter, id, flow.key, flow.offset) + lost;
  flow.last_arrival = std::max(flow.last_arrival, arrival);
  const InFlight sent{{id, segment.bytes, segment.ending, flow.last_arrival}, next_sequence_++};
  if (in_order_.empty() || in_order_.back().arrival.at <= sent.arrival.at)
    in_order_.push_back(sent);
  else
    out_of_order_.push(sent);
  free_at_ = segment.time.end;
  flow.offset += segment.bytes;
  flow.queued_bytes -= segment.bytes;
  if (segment.ending == flow.ending) flow.ending = StreamEnd::none;
  flow.waiting = flow.queued_bytes > 0 || flow.ending != StreamEnd::none;
  next_known_ = false;
}

}  // namespace causeway::wan_sim
