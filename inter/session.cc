#include "inter/session.h"

#include <algorithm>

namespace causeway::inter {
namespace {

constexpr std::size_t kUnansweredPingsMax = 256;
constexpr std::size_t kQueuedMessagesMax = 16;  // of the largest size

[[noreturn]] void unexpected(const FrameView& frame, const char* connection) {
  throw LinkError(Errc::bad_frame, "invalid frame: " + std::string(to_string(frame.type)) +
                                       " on the " + connection + " connection");
}

}  // namespace

Session::Session(SessionContext context, std::shared_ptr<Connection> control,
                 std::shared_ptr<Connection> data)
    : context_(std::move(context)),
      control_(std::move(control)),
      data_(std::move(data)),
      incoming_(context_.spool, context_.options.blob_bytes_max, context_.peer),
      control_wake_(context_.executor),
      data_wake_(context_.executor),
      heartbeat_(context_.executor),
      transfer_began_(Clock::now()),
      last_look_(Clock::now()) {}

asio::awaitable<std::string> Session::run(std::shared_ptr<Session> self) {
  TaskGroup loops(self->context_.executor);
  loops.spawn(guard(self, self->read_control()));
  loops.spawn(guard(self, self->read_data()));
  loops.spawn(guard(self, self->write_control()));
  loops.spawn(guard(self, self->write_data()));
  loops.spawn(guard(self, self->watch()));
  co_await loops.join();
  co_return self->reason_;
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

void Session::close(std::error_code code, const std::string& reason) {
  if (closed_) {
    return;
  }
  closed_ = true;
  reason_ = reason;
  control_->close(code, reason);
  data_->close(code, reason);
  control_wake_.notify();
  data_wake_.notify();
  heartbeat_.cancel();
}

void Session::send(const std::string& message) {
  queue_control(encode_text(FrameType::message, message));
}

void Session::fetch(const BlobId& id) {
  if (const auto request = incoming_.want(id)) {
    queue_control(encode(*request));
  }
}

asio::awaitable<void> Session::read_control() {
  while (!closed_) {
    const FrameView frame = co_await control_->read();
    on_control(frame);
  }
}

asio::awaitable<void> Session::read_data() {
  while (!closed_) {
    const FrameView frame = co_await data_->read();
    on_data(frame);
  }
}

asio::awaitable<void> Session::write_control() {
  while (!closed_) {
    if (control_queue_.empty()) {
      co_await control_wake_.wait();
      continue;
    }
    const Bytes frame = std::move(control_queue_.front());
    control_queue_.pop_front();
    control_queue_bytes_ -= frame.size();
    co_await control_->write(frame);
  }
}

asio::awaitable<void> Session::write_data() {
  while (!closed_) {
    const std::optional<Bytes> frame = next_data_frame();
    if (!frame) {
      co_await data_wake_.wait();
      continue;
    }
    data_sent_ = true;
    co_await data_->write(*frame);
  }
}

asio::awaitable<void> Session::watch() {
  while (!closed_) {
    send_ping();
    keep_alive();
    check_deadlines();
    if (closed_) {
      break;
    }
    heartbeat_.expires_after(context_.options.heartbeat_interval);
    std::error_code cancelled;
    co_await heartbeat_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

void Session::on_control(const FrameView& frame) {
  switch (frame.type) {
    case FrameType::message:
      context_.handler.on_message(context_.peer, to_text(frame.body));
      break;
    case FrameType::ping:
      queue_control(encode_number(FrameType::pong, decode_number(frame.body)));
      break;
    case FrameType::pong:
      on_pong(decode_number(frame.body));
      break;
    case FrameType::blob_fetch:
      context_.outgoing.on_fetch(decode_fetch(frame.body));
      data_wake_.notify();
      break;
    default:
      unexpected(frame, "control");
  }
}

void Session::on_data(const FrameView& frame) {
  switch (frame.type) {
    case FrameType::blob_chunk:
      on_chunk(decode_chunk(frame.body));
      break;
    case FrameType::blob_offer:
      reply(incoming_.on_offer(decode_id(frame.body)));
      break;
    case FrameType::blob_progress:
      context_.outgoing.on_progress(decode_progress(frame.body));
      data_wake_.notify();
      break;
    case FrameType::blob_decline:
      context_.outgoing.on_decline(decode_decline(frame.body));
      data_wake_.notify();
      break;
    case FrameType::blob_abandon:
      incoming_.on_abandon(decode_id(frame.body));
      break;
    case FrameType::alive:
      break;
    default:
      unexpected(frame, "data");
  }
}

void Session::on_chunk(const BlobChunk& chunk) {
  const BlobReceiver::Result result = incoming_.on_chunk(chunk);
  if (result.reply) {
    reply(*result.reply);
  }
  if (result.completed) {
    context_.handler.on_blob(context_.peer, chunk.id);
  }
}

void Session::on_pong(std::uint64_t sequence) {
  const auto ping = std::find_if(pings_.begin(), pings_.end(),
                                 [&](const auto& sent) { return sent.first == sequence; });
  if (ping == pings_.end()) {
    return;
  }
  const auto sample =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - ping->second);
  pings_.erase(pings_.begin(), ping + 1);
  auto& smoothed = context_.round_trip;
  smoothed = smoothed.count() == 0 ? sample : (7 * smoothed + sample) / 8;
}

// Requests go over control, where no bulk delays them; everything else stays in order with the
// chunks.
void Session::reply(const BlobReceiver::Reply& reply) {
  if (const auto* fetch = std::get_if<BlobFetch>(&reply)) {
    queue_control(encode(*fetch));
  } else if (const auto* progress = std::get_if<BlobProgress>(&reply)) {
    queue_data(encode(*progress));
  } else {
    queue_data(encode(std::get<BlobDecline>(reply)));
  }
}

void Session::queue_control(Bytes frame) {
  const std::size_t limit_bytes =
      kQueuedMessagesMax * (kFrameHeaderBytes + context_.options.message_bytes_max) + (1U << 20);
  control_queue_bytes_ += frame.size();
  control_queue_.push_back(std::move(frame));
  if (control_queue_bytes_ > limit_bytes) {
    close(Errc::deadline, "the peer reads too slowly: " + std::to_string(control_queue_bytes_) +
                              " bytes of control messages are waiting");
  }
  control_wake_.notify();
}

void Session::queue_data(Bytes frame) {
  data_queue_.push_back(std::move(frame));
  data_wake_.notify();
}

std::optional<Bytes> Session::next_data_frame() {
  if (data_queue_.empty()) {
    return context_.outgoing.next();
  }
  std::optional<Bytes> frame = std::move(data_queue_.front());
  data_queue_.pop_front();
  return frame;
}

void Session::send_ping() {
  if (pings_.size() < kUnansweredPingsMax) {
    pings_.emplace_back(++ping_sequence_, Clock::now());
    queue_control(encode_number(FrameType::ping, ping_sequence_));
  }
}

// A chunk may take longer than the idle deadline on a slow link. While its bytes arrive, the sender
// hears of it.
void Session::keep_alive() {
  const bool arriving = data_->received_bytes() != data_rx_bytes_seen_;
  if (arriving && !data_sent_ && (incoming_.busy() || data_->inside_frame())) {
    queue_data(encode_empty(FrameType::alive));
  }
  data_rx_bytes_seen_ = data_->received_bytes();
  data_sent_ = false;
}

void Session::check_deadlines() {
  const auto now = Clock::now();
  // Silence proves nothing while we ourselves did not look.
  const bool slept =
      now - last_look_ > context_.options.idle_deadline / 2 + context_.options.heartbeat_interval;
  last_look_ = now;
  if (!transferring()) {
    transfer_began_ = now;
  }
  if (slept) {
    return;
  }
  const auto control_idle = now - control_->last_received();
  const auto data_idle = now - std::max(data_->last_progress(), transfer_began_);
  const bool control_late = control_idle > context_.options.idle_deadline;
  if (!control_late && data_idle <= context_.options.idle_deadline) {
    return;
  }
  close(Errc::deadline, "nothing arrived for " +
                            seconds_text(control_late ? control_idle : data_idle) + " on the " +
                            (control_late ? "control" : "data") + " connection; " + in_flight());
}

bool Session::transferring() const {
  return context_.outgoing.busy() || incoming_.busy() || data_->inside_frame();
}

std::string Session::in_flight() const {
  const std::string sending = context_.outgoing.describe();
  const std::string receiving = incoming_.describe();
  if (sending.empty() && receiving.empty()) {
    return "no transfer was under way";
  }
  return sending + (sending.empty() || receiving.empty() ? "" : "; ") + receiving;
}

}  // namespace causeway::inter
