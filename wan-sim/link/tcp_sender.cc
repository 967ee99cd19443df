#include "wan-sim/link/tcp_sender.h"

#include <algorithm>
#include <cassert>

namespace causeway::wan_sim {
namespace {

using std::chrono::milliseconds;

// Linux: RTO = srtt + max(4 x variation, 200 ms).
constexpr Time kTimeoutMin = milliseconds{200};
constexpr Time kTimeoutMax = std::chrono::seconds{120};
constexpr int kTimeoutsMax = 10;
// A probe that follows a lone packet allows for a delayed acknowledgement.
constexpr Time kProbeSlack = milliseconds{2};

double packets(std::uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kPacketBytes);
}

}  // namespace

TcpSender::TcpSender(Congestion kind, Time round_trip)
    : control_(make_congestion(kind)), srtt_(round_trip), variation_(round_trip / 2) {}

std::uint64_t TcpSender::allowance() const {
  const double window = control_->window() * static_cast<double>(kPacketBytes);
  const auto bytes = static_cast<std::uint64_t>(std::max(window, double{kPacketBytes}));
  return bytes > in_flight_bytes_ ? bytes - in_flight_bytes_ : 0;
}

void TcpSender::restart_if_idle(Time now) {
  if (!runs_.empty() || delivered_ == 0) return;
  const Time idle = now - last_sent_;
  if (idle > timeout()) control_->on_restart(idle, timeout());
  delivered_at_ = now;
}

Run* TcpSender::next_lost() {
  if (lost_runs_ == 0) return nullptr;
  const auto found = std::find_if(runs_.begin(), runs_.end(), [](const Run& r) { return r.lost; });
  return &*found;
}

std::deque<Run>::iterator TcpSender::place_of(std::uint64_t offset) {
  return std::lower_bound(runs_.begin(), runs_.end(), offset,
                          [](const Run& run, std::uint64_t o) { return run.offset < o; });
}

Run* TcpSender::find(std::uint64_t offset) {
  const auto found = place_of(offset);
  return found != runs_.end() && found->offset == offset ? &*found : nullptr;
}

void TcpSender::count_out(Run& run, Time now) {
  run.order = next_order_++;
  run.sent_at = last_sent_ = now;
  run.delivered = delivered_;
  run.delivered_at = delivered_at_;
  in_flight_bytes_ += run.bytes;
  if (runs_.size() == 1 || now > last_heard_) last_heard_ = now;
  window_limited_ = allowance() < kPacketBytes;
  const double rate = control_->packets_per_s();
  if (rate > 0) {
    const auto gap = static_cast<Time::rep>(1e9 * packets(run.bytes) / rate);
    next_send_at_ = std::max(next_send_at_, now) + Time(gap);
  }
}

Run& TcpSender::send(std::uint64_t offset, std::uint64_t bytes, Time now, bool nothing_left) {
  if (runs_.empty()) delivered_at_ = std::max(delivered_at_, now);
  Run run;
  run.offset = offset;
  run.bytes = bytes;
  runs_.push_back(run);
  count_out(runs_.back(), now);
  runs_.back().app_limited = nothing_left && allowance() >= kPacketBytes;
  return runs_.back();
}

void TcpSender::send_again(Run& run, Time now) {
  assert(run.lost);
  run.lost = run.dropped = false;
  --lost_runs_;
  ++run.attempt;
  count_out(run, now);
}

void TcpSender::drop(Run& run) {
  run.dropped = true;
  ++dropped_runs_;
}

void TcpSender::split(std::uint64_t offset, std::uint64_t bytes) {
  const auto whole = place_of(offset);
  assert(whole != runs_.end() && whole->offset == offset && bytes > 0 && bytes < whole->bytes);
  Run rest = *whole;
  rest.offset += bytes;
  rest.bytes -= bytes;
  whole->bytes = bytes;
  if (rest.lost) ++lost_runs_;
  if (rest.dropped && !rest.lost) ++dropped_runs_;
  runs_.insert(std::next(whole), rest);
}

void TcpSender::sample_round_trip(Time rtt) {
  variation_ += (std::chrono::abs(rtt - srtt_) - variation_) / 4;
  srtt_ += (rtt - srtt_) / 8;
}

Time TcpSender::timeout() const {
  return std::min(srtt_ + std::max(4 * variation_, kTimeoutMin), kTimeoutMax);
}

Time TcpSender::probe_after() const {
  const bool lone = runs_.size() == 1 && runs_.front().bytes <= kPacketBytes;
  return std::min(2 * srtt_ + (lone ? kTimeoutMin : kProbeSlack), timeout());
}

void TcpSender::on_ack(std::uint64_t offset, Time now) {
  Run* run = find(offset);
  if (!run || run->acked || run->lost) return;
  AckSample sample;
  sample.now = now;
  sample.rtt = now - run->sent_at;
  sample.acked = packets(run->bytes);
  sample.in_flight = packets(in_flight_bytes_);
  run->acked = true;
  in_flight_bytes_ -= run->bytes;
  delivered_ += sample.acked;
  delivered_at_ = last_heard_ = now;
  timeouts_ = 0;
  probed_ = false;
  const double seconds = in_seconds(now - run->delivered_at);
  sample.delivered = delivered_;
  if (seconds > 0) sample.packets_per_s = (delivered_ - run->delivered) / seconds;
  sample.app_limited = run->app_limited;
  sample.window_limited = window_limited_;
  sample.new_round = run->order >= round_ends_at_order_;
  if (sample.new_round) round_ends_at_order_ = next_order_;
  sample_round_trip(sample.rtt);  // of what was sent again too: timestamps tell which one arrived
  const std::uint64_t order = run->order;
  detect_losses(order, now);
  if (recovery_ends_at_order_ && order >= *recovery_ends_at_order_) {
    recovery_ends_at_order_.reset();
    after_timeout_ = false;
    control_->on_recovered();
  }
  sample.recovering = recovery_ends_at_order_ && !after_timeout_;
  control_->on_ack(sample);
  forget_done();
}

// The path keeps order: what was sent before something that arrived, and did not, is lost.
void TcpSender::detect_losses(std::uint64_t before_order, Time now) {
  if (dropped_runs_ == 0) return;
  for (Run& run : runs_) {
    if (!run.dropped || run.lost || run.order >= before_order) continue;
    mark_lost(run);
    enter_recovery(now);
  }
}

void TcpSender::mark_lost(Run& run) {
  run.lost = true;
  ++lost_runs_;
  --dropped_runs_;
  in_flight_bytes_ -= run.bytes;
}

void TcpSender::enter_recovery(Time now) {
  if (recovery_ends_at_order_) return;
  recovery_ends_at_order_ = next_order_;
  control_->on_loss(now);
}

void TcpSender::forget_done() {
  while (!runs_.empty() && runs_.front().acked) runs_.pop_front();
}

std::optional<Time> TcpSender::deadline() const {
  if (in_flight_bytes_ == 0) return std::nullopt;
  if (!probed_ && timeouts_ == 0) return last_heard_ + probe_after();
  return last_heard_ + std::min(timeout() * (1 << std::min(timeouts_, kTimeoutsMax)), kTimeoutMax);
}

void TcpSender::on_deadline(Time now) {
  last_heard_ = now;
  if (!probed_ && timeouts_ == 0) {
    probed_ = true;
    // The tail goes again; whether more is missing shows in the answer.
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
      if (run->acked || run->lost) continue;
      if (!run->dropped) return;  // it is only late
      mark_lost(*run);
      return enter_recovery(now);
    }
    return;
  }
  ++timeouts_;
  bool any = false;
  for (Run& run : runs_) {
    if (run.acked || run.lost || !run.dropped) continue;
    mark_lost(run);
    any = true;
  }
  if (!any) return;
  control_->on_timeout(now);
  after_timeout_ = true;
  recovery_ends_at_order_ = next_order_;
}

}  // namespace causeway::wan_sim
