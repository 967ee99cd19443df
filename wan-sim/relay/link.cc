#include "wan-sim/relay/link.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace causeway::wan_sim {
namespace {

// With fewer bytes in it no socket is full: Linux begins with room for twice as many.
constexpr std::uint64_t kFullSocketBytes = 65'536;

}  // namespace

Link::Link(const asio::any_io_executor& executor, const LinkProfile& profile, std::uint64_t key)
    : rules_(make_link_rules(profile, key)), timer_(executor) {}

Time Link::now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::uint64_t Link::add_flow(std::uint64_t key, OnArrival on_arrival) {
  const std::uint64_t flow = rules_->add_flow(key);
  flows_.emplace(flow, std::move(on_arrival));
  return flow;
}

void Link::remove_flow(std::uint64_t flow) {
  rules_->remove_flow(flow);
  flows_.erase(flow);
}

void Link::offer(std::uint64_t flow, std::uint64_t bytes, Time at) {
  rules_->offer(flow, bytes, at);
  wake_in_time();
}

void Link::end(std::uint64_t flow, StreamEnd ending, Time at) {
  rules_->end(flow, ending, at);
  wake_in_time();
}

void Link::stall(Time at, Time length) {
  rules_->stall(at, length);
  wake_in_time();
}

void Link::black_hole(bool on, Time at) {
  rules_->black_hole(on, at);
  wake_in_time();
}

void Link::change(const LinkProfile& profile, Time at) {
  rules_->change(profile, at);
  wake_in_time();
}

void Link::count_delivered(std::uint64_t bytes) {
  stats_.bytes += bytes;
  stats_.buffered_bytes -= bytes;
}

void Link::count_unread(std::uint64_t flow, std::uint64_t bytes, Time from, Time until) {
  const auto idle = rules_->idle_since(flow, until);
  if (!idle) return;
  const Time missed = until - std::max({from, *idle, unread_counted_until_});
  if (missed <= Time{0}) return;
  unread_counted_until_ = until;
  const auto could =
      static_cast<std::uint64_t>(in_seconds(missed) * rules_->profile().rate_bytes_per_s);
  // The sender had no more to send, and its socket was not full: these bytes are late, but the link
  // has time for all of them.
  if (bytes < kFullSocketBytes && bytes < could) return;
  stats_.missed_bytes += could;
}

DirectedStats Link::stats() const {
  DirectedStats stats = stats_;
  stats.lateness_p99 = lateness_.quantile(0.99);
  stats.releases = lateness_.count();
  return stats;
}

void Link::wake_in_time() {
  const auto next = rules_->next_event();
  if (!next || wake_at_ == next) return;
  wake_at_ = next;
  timer_.expires_at(std::chrono::steady_clock::time_point(*next));
  timer_.async_wait([weak = weak_from_this()](std::error_code error) {
    if (const auto self = weak.lock(); self && !error) self->on_time();
  });
}

void Link::on_time() {
  wake_at_.reset();
  const Time time = now();
  arrivals_.clear();
  rules_->advance(time, arrivals_);
  // By number: a handler may offer to this link, but nothing is added here before the next wake-up.
  for (const Arrival& arrival : arrivals_) {
    lateness_.add(time - arrival.at);
    const auto flow = flows_.find(arrival.flow);
    if (flow == flows_.end()) continue;  // an arrival before this one may have ended the connection
    const OnArrival on_arrival = flow->second;  // a copy, because it may remove itself
    on_arrival(arrival);
  }
  wake_in_time();
}

}  // namespace causeway::wan_sim
