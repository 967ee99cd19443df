#include "wan-sim/relay/connection.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::tcp;

// Linux: a SYN is sent again after 1 s, 2 s, 4 s, ..., six times.
constexpr Time kSynTimeout = std::chrono::seconds{1};
constexpr std::uint64_t kSynRetries = 6;
constexpr std::uint64_t kHandshakeKey = 0x73796e;

// The two loopback legs must not add dynamics of their own: no Nagle, and a congestion control that
// does not pace by what it believes the path to be (BBR, where that is the default, would). Best
// effort: it shapes nothing if refused.
void make_leg_neutral(tcp::socket& socket) {
  std::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

}  // namespace

void close_with_reset(tcp::socket& socket) {
  std::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

Connection::Connection(tcp::socket dialler, Path forward, Path backward, std::uint64_t key)
    : key_(key),
      dialler_(std::move(dialler)),
      upstream_(dialler_.get_executor()),
      timer_(dialler_.get_executor()),
      forward_{dialler_, upstream_, std::move(forward), asio::steady_timer(timer_.get_executor())},
      backward_{upstream_, dialler_, std::move(backward),
                asio::steady_timer(timer_.get_executor())} {
  add_flows(forward_, key_of_flow(key, true));
  add_flows(backward_, key_of_flow(key, false));
  make_leg_neutral(dialler_);
}

// `this` may be captured: close() removes the flows, and nothing destroys a connection that is not
// closed.
void Connection::add_flows(Pipe& pipe, std::uint64_t key) {
  for (std::size_t stage = 0; stage < pipe.path.stages.size(); ++stage) {
    pipe.flows.push_back(pipe.path.stages[stage]->add_flow(
        key, [this, &pipe, stage](const Arrival& arrival) { on_stage(pipe, stage, arrival); }));
  }
}

void Connection::on_stage(Pipe& pipe, std::size_t stage, const Arrival& arrival) {
  const std::size_t next = stage + 1;
  if (next == pipe.path.stages.size()) return on_arrival(pipe, arrival);
  Link& link = *pipe.path.stages[next];
  if (arrival.bytes > 0) link.offer(pipe.flows[next], arrival.bytes, arrival.at);
  if (arrival.ending != StreamEnd::none) link.end(pipe.flows[next], arrival.ending, arrival.at);
}

std::uint64_t Connection::window_bytes(const Pipe& pipe) const {
  std::uint64_t bytes = 0;
  for (const auto& stage : pipe.path.stages) bytes += stage->window_bytes();
  return bytes;
}

void Connection::end(Pipe& pipe, StreamEnd ending) {
  pipe.path.stages.front()->end(pipe.flows.front(), ending, Link::now());
}

void Connection::start(Relay::Upstream upstream, std::function<void()> on_closed) {
  on_closed_ = std::move(on_closed);
  asio::co_spawn(timer_.get_executor(), establish(std::move(upstream)),
                 [self = shared_from_this()](std::exception_ptr error) {
                   if (error) std::rethrow_exception(error);
                 });
}

void Connection::reset() {
  on_closed_ = nullptr;
  close();
}

// The three packets of a handshake sent now; none if one of the first two is lost.
std::optional<Connection::Handshake> Connection::handshake(Time now, std::uint64_t attempt) {
  const std::uint64_t key = mix(key_, kHandshakeKey + 3 * attempt);
  const auto syn = forward_.path.link->traverse(now, key);
  const auto answer = syn ? backward_.path.link->traverse(*syn, key + 1) : std::nullopt;
  if (!answer) return std::nullopt;
  const auto accepted = forward_.path.link->traverse(*answer, key + 2);
  // The third one is no loss: the first data says the same.
  return Handshake{*syn, *answer, accepted.value_or(*answer + (*syn - now))};
}

asio::awaitable<void> Connection::establish(Relay::Upstream upstream) {
  std::optional<Handshake> packets;
  Time sent = Link::now();
  Time patience = kSynTimeout;
  for (std::uint64_t attempt = 0; !packets; ++attempt, patience *= 2) {
    packets = handshake(sent, attempt);
    if (packets) break;
    if (attempt == kSynRetries) co_return finish();
    sent += patience;
    co_await wait_until(sent);
    if (closed_) co_return;
  }
  co_await wait_until(packets->syn_arrives);
  if (closed_) co_return;
  const bool answers = co_await dial(upstream);
  co_await wait_until(packets->established);
  if (closed_) co_return;
  if (!answers) co_return finish();
  read(forward_);
  co_await wait_until(packets->accepted);
  if (!closed_) read(backward_);
}

asio::awaitable<void> Connection::wait_until(Time time) {
  if (closed_) co_return;              // a wait begun after close() would not be cancelled by it
  if (time <= Link::now()) co_return;  // a timer would cost two system calls
  std::error_code ignored;
  timer_.expires_at(std::chrono::steady_clock::time_point(time));
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

asio::awaitable<bool> Connection::dial(const Relay::Upstream& upstream) {
  const Relay::Targets targets = upstream();
  std::error_code error;
  co_await asio::async_connect(upstream_, targets.endpoints,
                               asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return false;
  make_leg_neutral(upstream_);
  co_return true;
}

void Connection::read(Pipe& pipe) {
  if (closed_ || pipe.reading || pipe.source_ended) return;
  const std::size_t window = window_bytes(pipe);
  if (pipe.buffer.size() >= window) return;
  pipe.reading = true;
  std::error_code ignored;
  // Behind a host's own rate nobody can tell whose lateness leaves the link idle.
  const bool alone = pipe.path.stages.size() == 1;
  const std::size_t waiting = alone ? pipe.source.available(ignored) : 0;
  if (waiting > 0) pipe.unread = {waiting, Link::now()};
  const auto space = pipe.buffer.prepare(window - pipe.buffer.size());
  pipe.source.async_read_some(
      asio::buffer(space.data(), space.size()),
      [self = shared_from_this(), &pipe](std::error_code error, std::size_t bytes) {
        self->on_read(pipe, error, bytes);
      });
}

void Connection::on_read(Pipe& pipe, std::error_code error, std::size_t bytes) {
  pipe.reading = false;
  // What was read while the reset was on its way comes too late for it.
  if (closed_ || pipe.reset_sent) return;
  if (!error) {
    const Time now = Link::now();
    if (const auto unread = std::exchange(pipe.unread, {})) {
      pipe.path.link->count_unread(pipe.flows.front(), std::max(unread->bytes, bytes),
                                   unread->since, now);
    }
    pipe.buffer.commit(bytes);
    pipe.path.link->count_read(bytes);
    pipe.path.stages.front()->offer(pipe.flows.front(), bytes, now);
    return read(pipe);
  }
  if (error != asio::error::eof) return send_reset(pipe);
  pipe.source_ended = true;
  send_finish(pipe);
}

void Connection::send_finish(Pipe& pipe) {
  const Time slow = pipe.path.link->faults().slow_close;
  if (slow <= Time{0}) return end(pipe, StreamEnd::finish);
  pipe.slow_close.expires_after(slow);
  pipe.slow_close.async_wait([self = shared_from_this(), &pipe](std::error_code cancelled) {
    if (!cancelled && !self->closed_ && !pipe.reset_sent) self->end(pipe, StreamEnd::finish);
  });
}

void Connection::send_reset(Pipe& pipe) {
  if (pipe.reset_sent) return;
  pipe.source_ended = pipe.reset_sent = true;
  end(pipe, StreamEnd::reset);
}

void Connection::on_arrival(Pipe& pipe, const Arrival& arrival) {
  pipe.arrived_bytes += arrival.bytes;
  if (arrival.ending != StreamEnd::none) pipe.arrived_ending = arrival.ending;
  write(pipe);
}

void Connection::write(Pipe& pipe) {
  if (closed_ || pipe.writing) return;
  if (pipe.arrived_bytes == 0) return deliver_ending(pipe);
  pipe.writing = true;
  LinkFaults& faults = pipe.path.link->faults();
  const auto bytes = pipe.buffer.front(faults.deliverable(pipe.arrived_bytes));
  if (const auto place = faults.take_corruption(pipe.delivered_bytes, bytes.size())) {
    pipe.buffer.flip_bit(*place);
  }
  pipe.sink.async_write_some(
      asio::buffer(bytes.data(), bytes.size()),
      [self = shared_from_this(), &pipe](std::error_code error, std::size_t written) {
        self->on_written(pipe, error, written);
      });
}

void Connection::on_written(Pipe& pipe, std::error_code error, std::size_t bytes) {
  pipe.writing = false;
  if (closed_) return;
  // The sink is gone. Its own direction carries the news to the other side, which takes that link's
  // time. What still arrives for it stays unwritten, at most a window, until then.
  if (error) return send_reset(&pipe == &forward_ ? backward_ : forward_);
  pipe.buffer.consume(bytes);
  pipe.arrived_bytes -= bytes;
  pipe.delivered_bytes += bytes;
  pipe.path.link->count_delivered(bytes);
  if (pipe.path.link->faults().kills_after(bytes)) return finish();
  read(pipe);
  write(pipe);
}

void Connection::deliver_ending(Pipe& pipe) {
  if (pipe.arrived_ending == StreamEnd::none) return;
  if (pipe.arrived_ending == StreamEnd::reset) return finish();
  if (pipe.done) return;
  pipe.done = true;
  std::error_code ignored;
  pipe.sink.shutdown(tcp::socket::shutdown_send, ignored);
  if (forward_.done && backward_.done) finish();
}

void Connection::finish() {
  const auto on_closed = std::exchange(on_closed_, nullptr);
  close();
  if (on_closed) on_closed();
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  const bool orderly = forward_.done && backward_.done;
  for (Pipe* pipe : {&forward_, &backward_}) {
    pipe->path.link->count_discarded(pipe->buffer.size());
    for (std::size_t i = 0; i < pipe->flows.size(); ++i) {
      pipe->path.stages[i]->remove_flow(pipe->flows[i]);
    }
    pipe->slow_close.cancel();
    std::error_code ignored;
    if (orderly)
      pipe->source.close(ignored);
    else
      close_with_reset(pipe->source);
  }
  timer_.cancel();
}

}  // namespace causeway::wan_sim
