#include "wan-sim/connection.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "wan-sim/chance.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::tcp;

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

Connection::Connection(tcp::socket dialler, std::shared_ptr<Link> forward,
                       std::shared_ptr<Link> backward, std::uint64_t key)
    : dialler_(std::move(dialler)),
      upstream_(dialler_.get_executor()),
      timer_(dialler_.get_executor()),
      forward_{dialler_, upstream_, std::move(forward)},
      backward_{upstream_, dialler_, std::move(backward)} {
  // `this` may be captured: close() removes the flows, and nothing destroys a connection that is
  // not closed.
  forward_.flow = forward_.link->add_flow(
      mix(key, 0), [this](const Arrival& arrival) { on_arrival(forward_, arrival); });
  backward_.flow = backward_.link->add_flow(
      mix(key, 1), [this](const Arrival& arrival) { on_arrival(backward_, arrival); });
  make_leg_neutral(dialler_);
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

asio::awaitable<void> Connection::establish(Relay::Upstream upstream) {
  const Time syn_arrives = forward_.link->traverse(Link::now());
  const Time established = backward_.link->traverse(syn_arrives);
  const Time accepted = forward_.link->traverse(established);
  co_await wait_until(syn_arrives);
  if (closed_) co_return;
  const bool answers = co_await dial(upstream);
  co_await wait_until(established);
  if (closed_) co_return;
  if (!answers) co_return finish();
  read(forward_);
  co_await wait_until(accepted);
  if (!closed_) read(backward_);
}

asio::awaitable<void> Connection::wait_until(Time time) {
  if (closed_) co_return;  // a wait begun after close() would not be cancelled by it
  std::error_code ignored;
  timer_.expires_at(std::chrono::steady_clock::time_point(time));
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

asio::awaitable<bool> Connection::dial(const Relay::Upstream& upstream) {
  const auto endpoint = upstream();
  if (!endpoint) co_return false;
  std::error_code error;
  co_await upstream_.async_connect(*endpoint, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return false;
  make_leg_neutral(upstream_);
  co_return true;
}

void Connection::read(Pipe& pipe) {
  if (closed_ || pipe.reading || pipe.source_ended) return;
  const std::size_t window_bytes = pipe.link->window_bytes();
  if (pipe.buffer.size() >= window_bytes) return;
  pipe.reading = true;
  const auto space = pipe.buffer.prepare(window_bytes - pipe.buffer.size());
  pipe.source.async_read_some(
      asio::buffer(space.data(), space.size()),
      [self = shared_from_this(), &pipe](std::error_code error, std::size_t bytes) {
        self->on_read(pipe, error, bytes);
      });
}

void Connection::on_read(Pipe& pipe, std::error_code error, std::size_t bytes) {
  pipe.reading = false;
  if (closed_) return;
  if (!error) {
    pipe.buffer.commit(bytes);
    pipe.link->offer(pipe.flow, bytes);
    return read(pipe);
  }
  if (error != asio::error::eof) return send_reset(pipe);
  pipe.source_ended = true;
  if (!pipe.reset_sent) pipe.link->end(pipe.flow, Ending::finish);
}

void Connection::send_reset(Pipe& pipe) {
  if (pipe.reset_sent) return;
  pipe.source_ended = pipe.reset_sent = true;
  pipe.link->end(pipe.flow, Ending::reset);
}

void Connection::on_arrival(Pipe& pipe, const Arrival& arrival) {
  pipe.arrived_bytes += arrival.bytes;
  if (arrival.ending != Ending::none) pipe.arrived_ending = arrival.ending;
  write(pipe);
}

void Connection::write(Pipe& pipe) {
  if (closed_ || pipe.writing) return;
  if (pipe.arrived_bytes == 0) return deliver_ending(pipe);
  pipe.writing = true;
  const auto bytes = pipe.buffer.front(pipe.arrived_bytes);
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
  pipe.link->count_delivered(bytes);
  read(pipe);
  write(pipe);
}

void Connection::deliver_ending(Pipe& pipe) {
  if (pipe.arrived_ending == Ending::none) return;
  if (pipe.arrived_ending == Ending::reset) return finish();
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
    pipe->link->count_discarded(pipe->buffer.size());
    pipe->link->remove_flow(pipe->flow);
    std::error_code ignored;
    if (orderly)
      pipe->source.close(ignored);
    else
      close_with_reset(pipe->source);
  }
  timer_.cancel();
}

}  // namespace causeway::wan_sim
