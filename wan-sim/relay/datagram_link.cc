#include "wan-sim/relay/datagram_link.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "wan-sim/relay/link.h"

namespace causeway::wan_sim {
namespace {

constexpr std::uint64_t kHeaderBytes = 28;  // of IPv4 and UDP

void flip_bit(std::string& datagram, double place) {
  if (datagram.empty()) return;
  const auto at = static_cast<std::size_t>(place * static_cast<double>(datagram.size()));
  datagram[std::min(at, datagram.size() - 1)] ^= 1;
}

}  // namespace

DatagramLink::DatagramLink(const asio::any_io_executor& executor, const LinkProfile& profile,
                           std::uint64_t key)
    : rules_(profile, key), timer_(executor) {}

void DatagramLink::send(PacketLink::Flow& flow, std::string datagram, Deliver deliver, Time now) {
  const PacketLink::Fate fate = rules_.offer(flow, datagram.size() + kHeaderBytes, now);
  if (fate.leaves.empty()) return;
  if (fate.corrupt_at) flip_bit(datagram, *fate.corrupt_at);
  const auto shared = std::make_shared<const std::string>(std::move(datagram));
  for (const Time at : fate.leaves) {
    buffered_bytes_ += shared->size();
    leaving_.push({at, next_sequence_++, shared, deliver});
  }
  wake_in_time();
}

void DatagramLink::stop() {
  timer_.cancel();
  leaving_ = {};
  buffered_bytes_ = 0;
}

void DatagramLink::add_to(DirectedStats& stats) const {
  stats.bytes += delivered_bytes_;
  stats.buffered_bytes += buffered_bytes_;
  stats.datagrams = delivered_;
  stats.datagrams_lost = rules_.lost_packets() + refused_;
  stats.datagrams_dropped = rules_.dropped_packets();
  stats.datagrams_missed = missed_;
  stats.datagram_flows = flows_;
  stats.releases += lateness_.count();
  stats.lateness_p99 = std::max(stats.lateness_p99, lateness_.quantile(0.99));
}

void DatagramLink::wake_in_time() {
  if (leaving_.empty() || wake_at_ == leaving_.top().at) return;
  wake_at_ = leaving_.top().at;
  timer_.expires_at(std::chrono::steady_clock::time_point(*wake_at_));
  timer_.async_wait([weak = weak_from_this()](std::error_code error) {
    if (const auto self = weak.lock(); self && !error) self->on_time();
  });
}

void DatagramLink::on_time() {
  wake_at_.reset();
  const Time now = Link::now();
  while (!leaving_.empty() && leaving_.top().at <= now) {
    const Leaving due = leaving_.top();
    leaving_.pop();
    lateness_.add(now - due.at);
    buffered_bytes_ -= due.datagram->size();
    if (!due.deliver(*due.datagram)) {
      ++missed_;
      continue;
    }
    ++delivered_;
    delivered_bytes_ += due.datagram->size();
  }
  wake_in_time();
}

}  // namespace causeway::wan_sim
