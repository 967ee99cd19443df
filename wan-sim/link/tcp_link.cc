#include "wan-sim/link/tcp_link.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {

TcpLink::TcpLink(const LinkProfile& profile, std::uint64_t key) : LinkRules(profile, key) {
  // What is not yet sent waits in the sender's socket, beside a window with holes in it.
  window_bytes_ *= 2;
}

std::uint64_t TcpLink::add_flow(std::uint64_t key) {
  Flow flow;
  flow.key = key;
  flow.loss = LossChain(mix(key, kLossKey));
  flow.sender.emplace(profile_.congestion, round_trip());
  return flows_.add(std::move(flow));
}

void TcpLink::remove_flow(std::uint64_t flow) {
  flows_.remove(flow);
  // What is in the queue is still sent; nobody receives it.
}

void TcpLink::offer(std::uint64_t id, std::uint64_t bytes, Time now) {
  process_until(now);
  Flow& flow = flows_.at(id);
  assert(flow.ending == StreamEnd::none);
  stalls_.start(now);
  if (flow.queued_bytes == 0) flow.sender->restart_if_idle(now);
  flow.queued_bytes += bytes;
  pump(id, now);
}

void TcpLink::end(std::uint64_t id, StreamEnd ending, Time now) {
  process_until(now);
  flows_.at(id).ending = ending;
  pump(id, now);
}

void TcpLink::stall(Time now, Time length) {
  process_until(now);
  stalls_.add(now, length);
  reconsider(now);
}

void TcpLink::black_hole(bool on, Time now) {
  process_until(now);
  set_black_hole(on);
  // Ends of streams are not modelled as packets; they wait for the end of the hole instead.
  if (!on) flows_.for_each([&](std::uint64_t id, Flow&) { pump(id, now); });
}

void TcpLink::change(const LinkProfile& profile, Time now) {
  assert(profile.congestion == profile_.congestion);
  process_until(now);
  set_profile(profile, now);
  window_bytes_ *= 2;
  reconsider(now);
}

// What is being sent goes on as begun, unless it has not begun.
void TcpLink::reconsider(Time now) {
  if (!sending_ || sending_->begin < now) return;
  free_at_ = now;
  sending_.reset();
  serve(now);
}

void TcpLink::advance(Time now, std::vector<Arrival>& arrivals) {
  process_until(now);
  stalls_.forget(std::min(now, free_at_));
  for (const Arrival& arrival : arrived_) {
    if (flows_.find(arrival.flow)) arrivals.push_back(arrival);
  }
  arrived_.clear();
}

std::optional<Time> TcpLink::next_event() {
  if (!arrived_.empty()) return arrived_.front().at;
  std::optional<Time> next;
  if (!events_.empty()) next = events_.top().at;
  if (sending_ && sending_->end < kNever)
    next = next ? std::min(*next, sending_->end) : sending_->end;
  return next;
}

std::optional<Time> TcpLink::idle_since(std::uint64_t id, Time now) {
  process_until(now);
  const Flow& flow = flows_.at(id);
  if (sending_ || flow.queued_bytes > 0 || flow.sender->allowance() == 0) return std::nullopt;
  return free_at_;
}

void TcpLink::schedule(Time at, Kind kind, const Piece& piece) {
  events_.push({at, next_sequence_++, kind, piece});
}

void TcpLink::process_until(Time now) {
  for (;;) {
    const Time event = events_.empty() ? kNever : events_.top().at;
    const Time departure = sending_ ? sending_->end : kNever;
    if (std::min(event, departure) > now || std::min(event, departure) >= kNever) return;
    if (departure <= event) {
      depart();
      continue;
    }
    const Event first = events_.top();
    events_.pop();
    handle(first);
  }
}

void TcpLink::handle(const Event& event) {
  Flow* flow = flows_.find(event.piece.flow);
  if (!flow) return;
  switch (event.kind) {
    case Kind::arrival:
      return on_arrival(event);
    case Kind::acknowledgement:
      flow->sender->on_ack(event.piece.offset, event.at);
      return pump(event.piece.flow, event.at);
    case Kind::wake:
      if (flow->wake_at != event.at) return;
      flow->wake_at.reset();
      return wake(event.piece.flow, event.at);
  }
}

void TcpLink::wake(std::uint64_t id, Time at) {
  Flow& flow = flows_.at(id);
  const auto deadline = flow.sender->deadline();
  if (deadline && *deadline <= at) flow.sender->on_deadline(at);
  pump(id, at);
}

void TcpLink::depart() {
  const Piece piece = queue_.front();
  const Time end = sending_->end;
  queue_.pop_front();
  free_at_ = end;
  sending_.reset();
  if (!queue_.empty()) queued_bytes_ -= queue_.front().bytes;  // no longer waiting
  serve(end);
  Flow* flow = flows_.find(piece.flow);
  if (!flow) return;
  const Time delay = delay_of(flow->jitter, piece.flow, flow->key, piece.offset);
  flow->last_arrival = std::max(flow->last_arrival, end + delay);
  schedule(flow->last_arrival, Kind::arrival, piece);
}

void TcpLink::serve(Time now) {
  if (sending_ || queue_.empty()) return;
  sending_ = transmission(std::max(free_at_, now), queue_.front().bytes);
}

void TcpLink::pump(std::uint64_t id, Time now) {
  Flow& flow = flows_.at(id);
  while (send_one(id, flow, now)) {
  }
  send_ending(id, flow, now);
  arm(id, flow, now);
}

void TcpLink::arm(std::uint64_t id, Flow& flow, Time now) {
  std::optional<Time> at = flow.sender->deadline();
  const bool paced = (flow.queued_bytes > 0 || flow.sender->next_lost()) &&
                     flow.sender->next_send_at() > now && flow.sender->allowance() > 0;
  if (paced) at = at ? std::min(*at, flow.sender->next_send_at()) : flow.sender->next_send_at();
  if (!at || (flow.wake_at && *flow.wake_at <= *at)) return;
  flow.wake_at = std::max(*at, now + Time{1});
  schedule(*flow.wake_at, Kind::wake, {.flow = id});
}

void TcpLink::send_ending(std::uint64_t id, Flow& flow, Time now) {
  if (flow.ending == StreamEnd::none || black_hole_ || flow.queued_bytes > 0) return;
  queue_.push_back({id, flow.sent_offset, 0, 0, std::exchange(flow.ending, StreamEnd::none)});
  serve(now);
}

void TcpLink::on_arrival(const Event& event) {
  Flow& flow = flows_.at(event.piece.flow);
  const Piece& piece = event.piece;
  if (piece.ending != StreamEnd::none) {
    flow.arrived_ending = piece.ending;
  } else if (Run* run = flow.sender->find(piece.offset)) {
    run->arrived = true;
    schedule(event.at + return_delay_, Kind::acknowledgement, piece);
  }
  hand_over(piece.flow, flow, event.at);
}

void TcpLink::hand_over(std::uint64_t id, Flow& flow, Time at) {
  std::uint64_t until = flow.arrived_until;
  for (const Run& run : flow.sender->runs()) {
    if (run.offset + run.bytes <= until) continue;
    if (run.offset > until || !run.arrived) break;
    until = run.offset + run.bytes;
  }
  const std::uint64_t bytes = until - std::exchange(flow.arrived_until, until);
  const bool complete = until == flow.sent_offset && flow.queued_bytes == 0;
  const StreamEnd ending =
      complete ? std::exchange(flow.arrived_ending, StreamEnd::none) : StreamEnd::none;
  if (bytes > 0 || ending != StreamEnd::none) arrived_.push_back({id, bytes, ending, at});
}

// How a TcpLink's senders send: what the socket and the window allow, what chance loses, and what
// the queue has no room for.

// The sender's socket keeps what is not acknowledged in order, and takes more once a third of it is
// free (Linux: sk_stream_write_space): large windows starve behind a hole, and then burst.
std::uint64_t TcpLink::sendable_bytes(Flow& flow) const {
  const auto& runs = flow.sender->runs();
  const std::uint64_t acked_until = runs.empty() ? flow.sent_offset : runs.front().offset;
  if (flow.buffered_until <= acked_until + profile_.send_buffer_bytes / 3 * 2) {
    flow.buffered_until = acked_until + profile_.send_buffer_bytes;
  }
  const std::uint64_t room = flow.buffered_until - std::min(flow.buffered_until, flow.sent_offset);
  return flow.queued_bytes <= room ? flow.queued_bytes : room - room % kPacketBytes;
}

bool TcpLink::send_one(std::uint64_t id, Flow& flow, Time now) {
  TcpSender& sender = *flow.sender;
  if (sender.next_send_at() > now) return false;
  const std::uint64_t allowed = sender.allowance();
  if (allowed == 0) return false;
  if (Run* lost = sender.next_lost()) {
    send_lost(id, flow, lost->offset, now);
    return true;
  }
  // Whole packets, unless it is the last one; up to the grid of offsets (see LinkModel).
  std::uint64_t bytes =
      std::min(sendable_bytes(flow), segment_bytes_ - flow.sent_offset % segment_bytes_);
  if (bytes > allowed) bytes = allowed - allowed % kPacketBytes;
  if (bytes == 0) return false;
  send_new(id, flow, bytes, now);
  return true;
}

// The first byte of [offset, offset + bytes) that is lost on the way, and how many after it; the
// end if none is.
std::uint64_t TcpLink::first_lost_byte(std::uint64_t id, Flow& flow, std::uint64_t offset,
                                       std::uint64_t bytes, std::uint64_t& lost_bytes) {
  const std::uint64_t end = offset + bytes;
  std::optional<std::uint64_t> first;
  // A small write is a packet of its own, though no multiple of kPacketBytes falls into it.
  if (flow.loss.packets() * kPacketBytes >= end) {
    if (!flow.loss.loses_again(profile_.loss, offset, 0)) return end;
    tell_loss(id, flow.loss.packets());
    lost_bytes = bytes;
    return offset;
  }
  while (flow.loss.packets() * kPacketBytes < end) {
    const std::uint64_t packet = flow.loss.packets();
    if (!flow.loss.loses_next(profile_.loss)) {
      if (first) return *first;
      continue;
    }
    tell_loss(id, packet);
    if (!first) first = std::max(offset, packet * kPacketBytes);
    lost_bytes = std::min(end, (packet + 1) * kPacketBytes) - *first;
  }
  return first.value_or(end);
}

void TcpLink::send_new(std::uint64_t id, Flow& flow, std::uint64_t bytes, Time now) {
  const std::uint64_t offset = flow.sent_offset;
  std::uint64_t lost_bytes = 0;
  std::uint64_t lost = offset + bytes;
  // The draw stops behind the first burst; the packets behind it are the next run.
  if (profile_.loss.any()) lost = first_lost_byte(id, flow, offset, bytes, lost_bytes);
  const std::uint64_t drawn = flow.loss.packets() * kPacketBytes;
  if (lost_bytes > 0) bytes = std::min(bytes, std::max(drawn, lost + lost_bytes) - offset);
  flow.queued_bytes -= bytes;
  flow.sent_offset += bytes;
  flow.sender->send(offset, bytes, now, flow.queued_bytes == 0);
  const std::uint64_t end = offset + bytes, rest = lost + lost_bytes;
  if (lost_bytes == 0) return inject(id, flow, offset, now);
  if (end > rest) flow.sender->split(offset, rest - offset);
  if (lost > offset) {
    flow.sender->split(offset, lost - offset);
    inject(id, flow, offset, now);
  }
  drop(flow, lost);
  if (end > rest) inject(id, flow, rest, now);
}

void TcpLink::send_lost(std::uint64_t id, Flow& flow, std::uint64_t offset, Time now) {
  Run* run = flow.sender->find(offset);
  const std::uint64_t allowed = std::max(flow.sender->allowance(), kPacketBytes);
  if (run->bytes > std::min(allowed, segment_bytes_)) {
    const std::uint64_t fits = std::min(allowed, segment_bytes_) / kPacketBytes * kPacketBytes;
    flow.sender->split(offset, std::max(fits, kPacketBytes));
    run = flow.sender->find(offset);
  }
  flow.sender->send_again(*run, now);
  if (flow.loss.loses_again(profile_.loss, offset / kPacketBytes, run->attempt))
    return drop(flow, offset);
  inject(id, flow, offset, now);
}

void TcpLink::drop(Flow& flow, std::uint64_t offset) {
  flow.sender->drop(*flow.sender->find(offset));
}

// Into the queue, as far as it has room.
void TcpLink::inject(std::uint64_t id, Flow& flow, std::uint64_t offset, Time now) {
  Run* run = flow.sender->find(offset);
  if (black_hole_) return flow.sender->drop(*run);
  const std::uint64_t limit = profile_.queue_limit_bytes();
  std::uint64_t room = limit > queued_bytes_ ? limit - queued_bytes_ : 0;
  if (queue_.empty()) room = std::max(room, run->bytes);
  if (run->bytes > room) {
    const std::uint64_t fits = room / kPacketBytes * kPacketBytes;
    if (fits == 0) return flow.sender->drop(*run);
    flow.sender->split(offset, fits);
    drop(flow, offset + fits);
    run = flow.sender->find(offset);
  }
  if (!queue_.empty()) queued_bytes_ += run->bytes;  // the first one is on the wire
  queue_.push_back({id, offset, run->bytes, run->order, StreamEnd::none});
  serve(now);
}

}  // namespace causeway::wan_sim
