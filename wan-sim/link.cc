#include "wan-sim/link.h"

#include <system_error>
#include <utility>

namespace causeway::wan_sim {

Link::Link(const asio::any_io_executor& executor, const LinkProfile& profile, std::uint64_t key)
    : model_(profile, key), timer_(executor) {}

Time Link::now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::uint64_t Link::add_flow(std::uint64_t key, OnArrival on_arrival) {
  const std::uint64_t flow = model_.add_flow(key);
  flows_.emplace(flow, std::move(on_arrival));
  return flow;
}

void Link::remove_flow(std::uint64_t flow) {
  model_.remove_flow(flow);
  flows_.erase(flow);
}

void Link::offer(std::uint64_t flow, std::uint64_t bytes) {
  stats_.buffered_bytes += bytes;
  model_.offer(flow, bytes, now());
  wake_in_time();
}

void Link::end(std::uint64_t flow, Ending ending) {
  model_.end(flow, ending, now());
  wake_in_time();
}

void Link::stall(Time length) {
  model_.stall(now(), length);
  wake_in_time();
}

void Link::count_delivered(std::uint64_t bytes) {
  stats_.bytes += bytes;
  stats_.buffered_bytes -= bytes;
}

DirectedStats Link::stats() const {
  DirectedStats stats = stats_;
  stats.lateness_p99 = lateness_.quantile(0.99);
  return stats;
}

void Link::wake_in_time() {
  const auto next = model_.next_event();
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
  for (const Arrival& arrival : model_.advance(time)) {
    lateness_.add(time - arrival.at);
    const auto flow =
        flows_.find(arrival.flow);  // an arrival before this one may have ended the connection
    if (flow == flows_.end()) continue;
    const OnArrival on_arrival = flow->second;  // a copy, because it may remove itself
    on_arrival(arrival);
  }
  wake_in_time();
}

}  // namespace causeway::wan_sim
