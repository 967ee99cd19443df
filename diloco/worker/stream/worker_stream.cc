#include "diloco/worker/stream/worker_stream.h"

#include <array>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include "diloco/files/error.h"
#include "inter/base/tcp.h"
#include "inter/tls/tls_stream.h"

namespace causeway::diloco {
namespace {

class UnixStream : public WorkerStream {
 public:
  explicit UnixStream(int socket) : socket_(socket) {}
  bool receive() override { return reader_.receive(socket_); }
  std::optional<Frame> next() override { return reader_.next(); }
  void add(Frame frame) override { writer_.add(std::move(frame)); }
  bool flush() override { return writer_.flush(socket_); }
  bool empty() const override { return writer_.empty(); }
  std::uint64_t sent_bytes() const override { return writer_.sent_bytes(); }

 private:
  int socket_;
  FrameReader reader_;
  FrameWriter writer_;
};

}  // namespace

std::unique_ptr<WorkerStream> make_unix_stream(int socket) {
  return std::make_unique<UnixStream>(socket);
}

namespace {

using inter::TlsStream;

constexpr std::size_t kTurnBytes = 4U << 20;  // others wait on the same thread
// Of what we sent, unconfirmed by a host that is gone or unread by a process that hangs.
constexpr std::chrono::milliseconds kSilenceDeadline{60'000};

}  // namespace

WorkerTlsStream::WorkerTlsStream(int socket, const inter::TlsContext& context, inter::TlsRole role)
    : tls_(std::make_unique<TlsStream>(inter::make_socket_bio(socket), context, role)) {
  inter::tune(socket, kSilenceDeadline);
}

// What came with the end of the handshake no longer makes the socket readable.
WorkerTlsStream::WorkerTlsStream(int socket, std::unique_ptr<TlsStream> tls)
    : tls_(std::move(tls)), more_(tls_->has_pending()) {
  inter::tune(socket, kSilenceDeadline);
}

TlsStream::Outcome WorkerTlsStream::handshake() {
  const TlsStream::Outcome outcome = tls_->handshake().outcome;
  more_ = outcome == TlsStream::Outcome::done && tls_->has_pending();
  return outcome;
}

bool WorkerTlsStream::receive() {
  more_ = false;
  std::size_t taken = 0;
  if (!broken_) {
    try {
      if (const auto open = take(taken)) return *open;
    } catch (const inter::LinkError& error) {
      broken_ = error;
    }
  }
  // A turn is over, or what broke it is said when the frames before have been taken.
  more_ = true;
  if (taken > 0) return true;
  if (inter::is_refusal(broken_->code())) throw *broken_;
  throw_lost(broken_->reason());
}

// Whether the other side is still there; nothing: there may be more to take.
std::optional<bool> WorkerTlsStream::take(std::size_t& taken) {
  std::array<std::byte, 64U << 10> piece;
  while (taken < kTurnBytes) {
    const auto [outcome, bytes] = tls_->read(piece);
    if (outcome == TlsStream::Outcome::ended) return end_of_frames();
    if (outcome != TlsStream::Outcome::done) return true;
    parser_.feed(std::span(piece).first(bytes));
    taken += bytes;
  }
  return std::nullopt;
}

bool WorkerTlsStream::end_of_frames() const {
  if (!parser_.inside_frame()) return false;
  throw inter::LinkError(std::make_error_code(std::errc::connection_aborted),
                         "the other side closed the connection in the middle of a frame");
}

bool WorkerTlsStream::flush() {
  for (auto piece = pieces_.next(); !piece.empty(); piece = pieces_.next()) {
    const auto [outcome, bytes] = write(piece);
    if (outcome != TlsStream::Outcome::done) return false;
    pieces_.taken(bytes);
    sent_bytes_ += bytes;
  }
  return true;
}

TlsStream::Step WorkerTlsStream::write(std::span<const char> piece) {
  try {
    return tls_->write(std::as_bytes(piece));
  } catch (const inter::LinkError& error) {
    throw_lost("the connection to the other host broke: " + error.reason());
  }
}

}  // namespace causeway::diloco
