#include "inter/mesh/session.h"

#include <algorithm>

#include <fmt/format.h>

namespace causeway::inter {
namespace {

constexpr unsigned kHeartbeatsPerReport = 20;
constexpr std::chrono::milliseconds kSampleMin{50};  // of a rate
constexpr std::chrono::seconds kSleptMin{1};         // over time

[[noreturn]] void unexpected(const FrameView& frame, const char* connection) {
  throw LinkError(Errc::bad_frame, "invalid frame: " + std::string(to_string(frame.type)) +
                                       " on the " + connection + " connection");
}

}  // namespace

Session::Session(SessionContext context, std::shared_ptr<Connection> control,
                 const SessionNonce& nonce)
    : context_(std::move(context)),
      control_(std::move(control)),
      nonce_(nonce),
      data_(context_.options, context_.peer, context_.outgoing, context_.meter, context_.restarts),
      incoming_(context_.intake, context_.peer,
                [this](Bytes frame) { queue_control(std::move(frame)); }),
      control_queue_(context_.options.message_bytes_max),
      control_wake_(context_.executor),
      control_room_(context_.executor),
      data_wake_(context_.executor),
      burst_wake_(context_.executor),
      heartbeat_(context_.executor),
      last_look_(Clock::now()) {
  context_.outgoing.on_new_session();
  context_.meter.on_new_session();
  queue_offers();
}

asio::awaitable<std::string> Session::run(Self self) {
  TaskGroup loops(self->context_.executor);
  loops.spawn(guard(self, self->read_control()));
  loops.spawn(guard(self, self->write_control()));
  loops.spawn(guard(self, self->watch()));
  loops.spawn(guard(self, self->sample_bursts()));
  co_await loops.join();
  co_return self->reason_;
}

asio::awaitable<std::string> Session::serve_data(Self self, std::shared_ptr<Connection> data) {
  if (self->closed_) co_return self->reason_;
  const ConnectionNumber number = self->data_.add(data);
  TaskGroup loops(self->context_.executor);
  loops.spawn(guard_data(self, data, self->read_data(data)));
  loops.spawn(guard_data(self, data, self->write_data(data, number)));
  co_await loops.join();
  self->data_.remove(number);
  if (!self->closed_) {  // else they belong to the next session
    self->context_.outgoing.on_connection_lost(number);
    self->context_.meter.on_connection_lost(number);
    self->wake_data();
  }
  co_return data->close_reason();
}

asio::awaitable<void> Session::guard(Self self, asio::awaitable<void> loop) {
  try {
    co_await std::move(loop);
  } catch (const LinkError& error) {
    self->close(error.code(), error.reason());
  } catch (...) {
    self->close(std::make_error_code(std::errc::operation_canceled), "internal failure");
    throw;
  }
}

asio::awaitable<void> Session::guard_data(Self self, std::shared_ptr<Connection> data,
                                          asio::awaitable<void> loop) {
  try {
    co_await std::move(loop);
  } catch (const LinkError& error) {
    data->close(error.code(), error.reason());
    self->wake_data();  // its writer
  } catch (...) {
    self->close(std::make_error_code(std::errc::operation_canceled), "internal failure");
    throw;
  }
}

void Session::close(std::error_code code, const std::string& reason) {
  if (closed_) return;
  closed_ = true;
  reason_ = reason;
  control_->close(code, reason);
  data_.close(code, reason);
  control_wake_.notify();
  control_room_.notify();
  data_wake_.notify();
  burst_wake_.notify();
  heartbeat_.cancel();
  for (asio::steady_timer* const timer : waits_) timer->cancel();
}

asio::awaitable<void> Session::wait(std::chrono::milliseconds delay) {
  asio::steady_timer timer(context_.executor, delay);
  waits_.insert(&timer);
  std::error_code cancelled;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  waits_.erase(&timer);
}

void Session::send(const std::string& message) {
  queue_control(encode_text(FrameType::message, message));
}

void Session::mute(std::uint64_t detour) {
  detour_ = detour;
  hears_messages_ = false;
  control_queue_.forget_messages();
  control_room_.notify();
}

void Session::unmute() {
  queue_control(encode_number(FrameType::messages_here, detour_));
}

void Session::fetch(const BlobId& id) {
  incoming_.want(id);
}

void Session::forgo(const BlobId& id) {
  incoming_.forgo(id);
}

void Session::pass(const BlobPass& pass) {
  queue_control(encode(pass));
}

void Session::tell(const Neighbours& neighbours) {
  queue_control(encode(neighbours));
}

void Session::relay(FrameType type, const Relay& relay) {
  queue_control(encode(type, relay));
}

asio::awaitable<void> Session::wait_for_room() {
  while (!closed_ && control_queue_.bytes() > kRelayBacklogBytes) co_await control_room_.wait();
}

void Session::wake_data() {
  queue_offers();
  data_wake_.notify();
}

void Session::begin_push(bool first) {
  data_.begin_burst(context_.outgoing.bytes_left(), first);
  wake_data();
  burst_wake_.notify();
}

asio::awaitable<void> Session::read_control() {
  while (!closed_) {
    const FrameView frame = co_await control_->read();
    on_control(frame);
  }
}

asio::awaitable<void> Session::write_control() {
  while (!closed_) {
    if (control_queue_.empty()) {
      co_await control_wake_.wait();
      continue;
    }
    const Bytes frames = control_queue_.take();
    control_room_.notify();
    co_await control_->write(frames);
  }
}

asio::awaitable<void> Session::read_data(std::shared_ptr<Connection> data) {
  for (;;) {
    const FrameView frame = co_await data->read();
    if (frame.type != FrameType::blob_chunk) unexpected(frame, "data");
    incoming_.on_chunk(decode_chunk(frame.body));
  }
}

asio::awaitable<void> Session::write_data(std::shared_ptr<Connection> data,
                                          ConnectionNumber number) {
  std::optional<Bytes> frame;
  while (!data->is_closed()) {
    const bool quiet = !context_.outgoing.under_way();
    frame = data_.may_begin(number)
                ? context_.outgoing.next_chunk(number, std::move(frame).value_or(Bytes()))
                : std::nullopt;
    if (frame && quiet) context_.meter.on_burst(Clock::now());
    queue_offers();  // a blob that is gone must be given up
    if (!frame) {
      co_await data_wake_.wait();
      continue;
    }
    co_await data->write(*frame);
  }
}

asio::awaitable<void> Session::watch() {
  while (!closed_) {
    if (const auto ping = pings_.next(Clock::now()))
      queue_control(encode_number(FrameType::ping, *ping));
    report_links();
    context_.on_answers(pings_.answer_delay(Clock::now()));
    check_deadlines();
    data_.set_pace(pings_.answer_delay(Clock::now()));
    // Who may send changes with the path, and nobody else tells those that wait.
    data_wake_.notify();
    if (closed_) break;
    heartbeat_.expires_after(context_.options.heartbeat_interval);
    std::error_code cancelled;
    co_await heartbeat_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

asio::awaitable<void> Session::sample_bursts() {
  while (!closed_) {
    if (context_.outgoing.idle()) {
      context_.meter.on_quiet();
      co_await burst_wake_.wait();
      continue;
    }
    data_.newly_delivered_bytes();
    const auto began = Clock::now();
    const auto pause = std::max(kSampleMin, std::chrono::duration_cast<std::chrono::milliseconds>(
                                                context_.meter.round_trip()));
    co_await wait(pause);
    const std::uint64_t bytes = data_.newly_delivered_bytes();
    const auto now = Clock::now();
    const bool slept = now - began > pause + kSleptMin;  // says nothing of the path
    if (!slept && context_.outgoing.under_way())
      context_.meter.on_busy(bytes, now - began, pings_.answer_delay(now), now);
    if (!context_.outgoing.exhausted())  // no connection was idle meanwhile
      context_.meter.on_delivered(bytes, now - began);
  }
}

void Session::on_control(const FrameView& frame) {
  const bool small = frame.type == FrameType::message || frame.type == FrameType::ping ||
                     frame.type == FrameType::pong;
  if (!context_.via.empty() && !small) unexpected(frame, "relayed");
  switch (frame.type) {
    case FrameType::message:
      if (hears_messages_) context_.handler.on_message(context_.peer, to_text(frame.body));
      return;
    case FrameType::ping:
      queue_control(encode_number(FrameType::pong, decode_number(frame.body)));
      return;
    case FrameType::pong:
      on_pong(decode_number(frame.body));
      return;
    case FrameType::messages_here:
      on_messages_here(decode_number(frame.body));
      return;
    case FrameType::messages_here_too:
      if (decode_number(frame.body) == detour_) hears_messages_ = true;
      return;
    case FrameType::link_report:
      context_.router.on_report(context_.peer, decode_report(frame.body));
      return;
    case FrameType::neighbours:
      context_.on_neighbours(decode_neighbours(frame.body));
      return;
    case FrameType::relay:
    case FrameType::relayed:
      context_.on_relay(frame.type, decode_relay(frame.body));
      return;
    case FrameType::blob_pass:
      context_.pass_on(decode_pass(frame.body));
      return;
    case FrameType::blob_offer:
      incoming_.on_offer(decode_id(frame.body));
      return;
    case FrameType::blob_abandon:
      incoming_.on_abandon(decode_id(frame.body));
      context_.handler.on_blob_absent(context_.peer, decode_id(frame.body));
      return;
    case FrameType::blob_ack:
      on_ack(decode_ack(frame.body));
      return;
    case FrameType::blob_fetch:
      on_fetch(decode_fetch(frame.body));
      break;
    case FrameType::blob_complete:
      context_.outgoing.on_complete(decode_id(frame.body));
      break;
    case FrameType::blob_decline:
      context_.outgoing.on_decline(decode_decline(frame.body));
      break;
    default:
      unexpected(frame, "control");
  }
  wake_data();
}

// Whoever has nothing of it may have found that what came was wrong.
void Session::on_fetch(const BlobFetch& fetch) {
  if (fetch.held.none()) context_.intake->recheck(fetch.id);
  context_.outgoing.on_fetch(fetch);
}

void Session::on_ack(const BlobAck& ack) {
  const bool crowded = context_.meter.is_crowded(Clock::now());
  const std::uint64_t confirmed_bytes = context_.outgoing.on_ack(ack);
  if (confirmed_bytes > 0)
    context_.meter.on_acknowledged(confirmed_bytes, !context_.outgoing.under_way(), Clock::now());
  if (crowded) data_wake_.notify();
}

void Session::on_pong(std::uint64_t number) {
  const auto now = Clock::now();
  const auto took = pings_.take_answer(number, now);
  if (!took) return;
  context_.meter.on_round_trip(std::chrono::duration_cast<std::chrono::microseconds>(*took), now);
}

// Answered whatever it is about: the peer hears nothing of us before.
void Session::on_messages_here(std::uint64_t detour) {
  if (detour == detour_) hears_messages_ = true;
  left_ = detour;
  queue_control(encode_number(FrameType::messages_here_too, detour));
  context_.on_messages_here(detour);
}

void Session::queue_control(Bytes frame) {
  if (closed_) return;
  control_queue_.add(std::move(frame));
  if (control_queue_.is_too_long()) {
    close(Errc::deadline,
          fmt::format("the peer reads too slowly: {} bytes of control messages are waiting",
                      control_queue_.bytes()));
  }
  control_wake_.notify();
}

void Session::queue_offers() {
  while (auto frame = context_.outgoing.next_control()) queue_control(std::move(*frame));
}

void Session::report_links() {
  if (!context_.via.empty()) return;  // it measures others' links
  context_.router.on_measured(context_.peer, context_.meter.round_trip(),
                              context_.meter.rate_bytes_per_s(),
                              context_.meter.at_least_bytes_per_s());
  if (heartbeats_++ % kHeartbeatsPerReport == 0) queue_control(encode(context_.router.report()));
}

void Session::check_deadlines() {
  const auto now = Clock::now();
  // Silence proves nothing while we ourselves did not look.
  const bool slept =
      now - last_look_ > context_.options.idle_deadline / 2 + context_.options.heartbeat_interval;
  last_look_ = now;
  data_.look(now);
  if (!slept) {
    check_control(now);
    data_.begin_anew(now, pings_.answer_delay(now));
    data_.drop_stalled(now, pings_.answer_delay(now), in_flight());
  }
}

// Bytes that move on a data connection prove that the peer lives, though bulk may keep its control
// messages from arriving.
void Session::check_control(Clock::time_point now) {
  const auto deadline = context_.options.idle_deadline;
  const auto silent = now - control_->last_received();
  const bool moves = now - data_.last_progress() <= deadline;
  if (silent <= (moves ? kControlDeadlines : 1) * deadline) return;
  close(Errc::deadline, "nothing arrived for " + seconds_text(silent) +
                            " on the control connection" +
                            (moves ? ", though bytes move on others; " : "; ") + in_flight());
}

std::string Session::in_flight() const {
  const std::string sending = context_.outgoing.describe();
  const std::string receiving = incoming_.describe();
  if (sending.empty() && receiving.empty()) return "no transfer was under way";
  return sending + (sending.empty() || receiving.empty() ? "" : "; ") + receiving;
}

}  // namespace causeway::inter
