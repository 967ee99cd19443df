#include "wan-sim/link_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "wan-sim/chance.h"

namespace causeway::wan_sim {
namespace {

constexpr std::uint64_t kSegmentBytesMin =
    1448;  // one packet: a real link does not send less at a time either
constexpr std::uint64_t kSegmentBytesMax = 64 * 1024;

// At most about a millisecond at the link's rate, so that connections take turns finely and
// arrivals are smooth.
std::uint64_t segment_bytes_of(double rate_bytes_per_s) {
  const auto bytes = static_cast<std::uint64_t>(rate_bytes_per_s / 1000);
  return std::clamp(bytes, kSegmentBytesMin, kSegmentBytesMax);
}

// Two segments more than bandwidth x delay plus the queue: the one being sent, and one against the
// caller's lateness.
std::uint64_t window_bytes_of(const LinkProfile& profile) {
  const double delay_s = std::chrono::duration<double>(profile.delay + profile.jitter).count();
  return static_cast<std::uint64_t>(profile.rate_bytes_per_s * delay_s) + profile.queue_bytes +
         2 * segment_bytes_of(profile.rate_bytes_per_s);
}

Time transmission_time(std::uint64_t bytes, double rate_bytes_per_s) {
  return Time(
      static_cast<Time::rep>(std::ceil(1e9 * static_cast<double>(bytes) / rate_bytes_per_s)));
}

}  // namespace

LinkModel::LinkModel(const LinkProfile& profile, std::uint64_t key)
    : profile_(profile),
      segment_bytes_(segment_bytes_of(profile.rate_bytes_per_s)),
      window_bytes_(window_bytes_of(profile)),
      stalls_(profile.stalls_per_s, profile.stall, key) {
  assert(profile.rate_bytes_per_s > 0);
}

std::uint64_t LinkModel::add_flow(std::uint64_t key) {
  flows_[next_flow_].key = key;
  return next_flow_++;
}

void LinkModel::remove_flow(std::uint64_t flow) {
  flows_.erase(flow);
  std::erase(turns_, flow);
  if (served_ == flow) served_.reset();
}

void LinkModel::offer(std::uint64_t flow, std::uint64_t bytes, Time now) {
  transmit_until(now);
  assert(flows_.at(flow).ending == Ending::none);
  flows_.at(flow).queued_bytes += bytes;
  enqueue(flow, now);
}

void LinkModel::end(std::uint64_t flow, Ending ending, Time now) {
  transmit_until(now);
  flows_.at(flow).ending = ending;
  enqueue(flow, now);
}

void LinkModel::stall(Time now, Time length) {
  transmit_until(now);
  stalls_.add(now, length);
}

Time LinkModel::traverse(Time now) {
  stalls_.start(now);
  return stalls_.done(now, Time{0}) + profile_.delay;
}

std::vector<Arrival> LinkModel::advance(Time now) {
  transmit_until(now);
  stalls_.forget(std::min(now, free_at_));
  std::vector<Arrival> arrivals;
  while (!in_flight_.empty() && in_flight_.top().arrival.at <= now) {
    const Arrival arrival = in_flight_.top().arrival;
    in_flight_.pop();
    if (flows_.contains(arrival.flow)) arrivals.push_back(arrival);
  }
  return arrivals;
}

std::optional<Time> LinkModel::next_event() {
  std::optional<Time> next;
  if (!in_flight_.empty()) next = in_flight_.top().arrival.at;
  // A segment not yet begun cannot arrive sooner than this. Waking for arrivals alone, not for each
  // departure, halves the wake-ups; nobody can tell, because departures are computed from their own
  // times.
  if (const auto segment = next_segment()) {
    const Time soonest = segment->end + profile_.delay;
    next = next ? std::min(*next, soonest) : soonest;
  }
  return next;
}

void LinkModel::enqueue(std::uint64_t flow, Time now) {
  stalls_.start(now);
  if (!next_flow()) free_at_ = std::max(free_at_, now);
  Flow& state = flows_.at(flow);
  if (!state.waiting && served_ != flow) turns_.push_back(flow);
  state.waiting = true;
  transmit_until(now);
}

std::optional<std::uint64_t> LinkModel::next_flow() const {
  if (!turns_.empty()) return turns_.front();
  return served_ && flows_.at(*served_).waiting ? served_ : std::nullopt;
}

std::optional<LinkModel::Segment> LinkModel::next_segment() {
  const auto id = next_flow();
  if (!id) return std::nullopt;
  const Flow& flow = flows_.at(*id);
  // Segments end on a grid of offsets, so that the same bytes make the same segments, and draw the
  // same jitter, again.
  const std::uint64_t bytes =
      std::min(flow.queued_bytes, segment_bytes_ - flow.offset % segment_bytes_);
  Segment segment;
  segment.bytes = bytes;
  segment.ending = bytes == flow.queued_bytes ? flow.ending : Ending::none;
  segment.begin = stalls_.done(free_at_, Time{0});
  segment.end = stalls_.done(segment.begin, transmission_time(bytes, profile_.rate_bytes_per_s));
  return segment;
}

void LinkModel::transmit_until(Time now) {
  for (auto segment = next_segment(); segment && segment->begin <= now; segment = next_segment()) {
    transmit(*segment);
  }
}

void LinkModel::transmit(const Segment& segment) {
  const std::uint64_t id = *next_flow();
  Flow& flow = flows_.at(id);
  if (!turns_.empty()) turns_.pop_front();
  if (served_ && served_ != id && flows_.at(*served_).waiting) turns_.push_back(*served_);
  served_ = id;
  const double jitter = half_normal(mix(flow.key, flow.offset));
  const Time jitter_time(
      static_cast<Time::rep>(jitter * 1e3 * static_cast<double>(profile_.jitter.count())));
  flow.last_arrival = std::max(flow.last_arrival, segment.end + profile_.delay + jitter_time);
  in_flight_.push({{id, segment.bytes, segment.ending, flow.last_arrival}, next_sequence_++});
  free_at_ = segment.end;
  flow.offset += segment.bytes;
  flow.queued_bytes -= segment.bytes;
  if (segment.ending == flow.ending) flow.ending = Ending::none;
  flow.waiting = flow.queued_bytes > 0 || flow.ending != Ending::none;
}

}  // namespace causeway::wan_sim
