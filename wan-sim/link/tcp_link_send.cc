// How a TcpLink's senders send: what the socket and the window allow, what chance loses, and what
// the queue has no room for.
#include <algorithm>

#include "wan-sim/link/tcp_link.h"

namespace causeway::wan_sim {

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
  queue_.push_back({id, offset, run->bytes, run->order, Ending::none});
  serve(now);
}

}  // namespace causeway::wan_sim
