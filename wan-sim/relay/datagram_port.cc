#include "wan-sim/relay/datagram_port.h"

#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/buffer.hpp>

#include "wan-sim/base/chance.h"
#include "wan-sim/relay/link.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::udp;

constexpr std::size_t kDatagramBytesMax = 65'536;
constexpr int kReceiveBufferBytes = 4 << 20;      // as far as the system lets us
constexpr std::uint64_t kDatagramKey = 0x756470;  // not the draws of a connection of that number

// Datagrams that came while its buffer was full.
std::uint64_t missed_by(udp::socket& socket) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> seen{};
  socklen_t size = sizeof seen;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_MEMINFO, seen.data(), &size) != 0)
    return 0;
  return seen[SK_MEMINFO_DROPS];
}

void prepare(udp::socket& socket) {
  std::error_code ignored;
  socket.set_option(asio::socket_base::receive_buffer_size(kReceiveBufferBytes), ignored);
  socket.non_blocking(true);
}

// An answer "nobody listens" to an earlier datagram is told once, in place of sending this one.
template <typename Send>
bool sent(const Send& send) {
  std::error_code error = send();
  if (error == asio::error::connection_refused) error = send();
  return !error || error == asio::error::connection_refused;
}

}  // namespace

DatagramPort::Flow::Flow(const asio::any_io_executor& executor, udp::endpoint from,
                         std::uint64_t key)
    : source(std::move(from)),
      upstream(executor),
      there(key_of_flow(key, true)),
      back(key_of_flow(key, false)) {}

DatagramPort::DatagramPort(const asio::any_io_executor& executor, Route route,
                           DatagramLimits limits)
    : executor_(executor),
      route_(std::move(route)),
      limits_(limits),
      socket_(executor, route_.listen),
      idle_timer_(executor),
      buffer_(kDatagramBytesMax, '\0'),
      answer_(kDatagramBytesMax, '\0') {
  prepare(socket_);
}

void DatagramPort::start() {
  receive();
}

void DatagramPort::stop() {
  stopped_ = true;
  count_missed();
  std::error_code ignored;
  socket_.close(ignored);
  for (const auto& [source, flow] : flows_) flow->upstream.close(ignored);
  flows_.clear();
  idle_timer_.cancel();
}

void DatagramPort::receive() {
  socket_.async_receive_from(asio::buffer(buffer_), source_,
                             [self = shared_from_this()](std::error_code error, std::size_t bytes) {
                               if (self->stopped_) return;
                               if (!error) self->on_datagram(bytes);
                               self->receive();
                             });
}

void DatagramPort::on_datagram(std::size_t bytes) {
  if (route_.is_refused()) return route_.forward->count_refused();
  const FlowPointer flow = flow_of(source_);
  if (!flow) return route_.forward->count_missed(1);
  flow->used = Link::now();
  const auto deliver = [flow](const std::string& datagram) {
    return sent([&] {
      std::error_code error;
      flow->upstream.send(asio::buffer(datagram), 0, error);
      return error;
    });
  };
  route_.forward->send(flow->there, buffer_.substr(0, bytes), deliver, flow->used);
}

DatagramPort::FlowPointer DatagramPort::flow_of(const udp::endpoint& source) {
  const auto known = flows_.find(source);
  if (known != flows_.end()) return known->second;
  try {
    return add_flow(source);
  } catch (const std::system_error& error) {
    if (const auto more = log_.note(error.code().message()))
      spdlog::warn("wan-sim: cannot open a socket for the datagrams of another source: {}{}",
                   error.what(), *more);
    return nullptr;
  }
}

DatagramPort::FlowPointer DatagramPort::add_flow(const udp::endpoint& source) {
  if (flows_.size() >= limits_.flows_max) {
    forget(std::ranges::min_element(flows_, {}, [](const auto& known) {
             return known.second->used;
           })->first);
  }
  const std::uint64_t number = route_.forward->count_flow();
  const std::uint64_t key = mix(mix(route_.key, kDatagramKey), number);
  const auto flow = std::make_shared<Flow>(executor_, source, key);
  flow->upstream.open(route_.target.protocol());
  flow->upstream.connect(route_.target);
  prepare(flow->upstream);
  flows_[source] = flow;
  if (flows_.size() == 1) forget_in_time();
  receive_answers(flow);
  return flow;
}

void DatagramPort::receive_answers(const FlowPointer& flow) {
  flow->upstream.async_wait(udp::socket::wait_read,
                            [self = shared_from_this(), flow](std::error_code) {
                              if (!flow->upstream.is_open()) return;
                              self->receive_answer(flow);
                              self->receive_answers(flow);
                            });
}

void DatagramPort::receive_answer(const FlowPointer& flow) {
  std::error_code failure;
  const std::size_t bytes = flow->upstream.receive(asio::buffer(answer_), 0, failure);
  if (failure) return;  // nobody listens there, for now
  if (route_.is_refused()) return route_.backward->count_refused();
  flow->used = Link::now();
  const auto deliver = [self = shared_from_this(), flow](const std::string& datagram) {
    return sent([&] {
      std::error_code error;
      self->socket_.send_to(asio::buffer(datagram), flow->source, 0, error);
      return error;
    });
  };
  route_.backward->send(flow->back, answer_.substr(0, bytes), deliver, flow->used);
}

void DatagramPort::forget(const udp::endpoint& source) {
  const FlowPointer flow = flows_.at(source);
  route_.backward->count_missed(missed_by(flow->upstream) - flow->missed);
  std::error_code ignored;
  flow->upstream.close(ignored);
  flows_.erase(source);
}

void DatagramPort::forget_idle(Time now) {
  std::vector<udp::endpoint> idle;
  for (const auto& [source, flow] : flows_) {
    if (flow->used + limits_.idle <= now) idle.push_back(source);
  }
  for (const udp::endpoint& source : idle) forget(source);
}

void DatagramPort::forget_in_time() {
  idle_timer_.expires_after(limits_.idle);
  idle_timer_.async_wait([weak = weak_from_this()](std::error_code cancelled) {
    const auto self = weak.lock();
    if (!self || cancelled || self->stopped_) return;
    self->forget_idle(Link::now());
    if (!self->flows_.empty()) self->forget_in_time();
  });
}

void DatagramPort::count_missed() {
  if (!socket_.is_open()) return;
  const auto count = [](udp::socket& socket, std::uint64_t& counted, DatagramLink& link) {
    const std::uint64_t missed = missed_by(socket);
    link.count_missed(missed - std::exchange(counted, missed));
  };
  count(socket_, missed_, *route_.forward);
  for (const auto& [source, flow] : flows_) count(flow->upstream, flow->missed, *route_.backward);
}

}  // namespace causeway::wan_sim
