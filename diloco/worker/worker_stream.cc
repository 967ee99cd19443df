#include "diloco/worker/worker_stream.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/worker/stream_parser.h"
#include "inter/base/tcp.h"
#include "inter/tls/socket_bio.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kPieceBytes = 256U << 10;
constexpr std::size_t kTurnBytes = 4U << 20;  // others wait on the same thread
// Of what we sent, unconfirmed by a host that is gone or unread by a process that hangs.
constexpr std::chrono::milliseconds kSilenceDeadline{60'000};

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

// ---- Leaving bytes ----

// The bytes of queued frames, piece by piece.
class Pieces {
 public:
  void add(Frame frame) { frames_.push_back(std::move(frame)); }
  bool empty() const { return rest().empty() && !file_ && frames_.empty(); }

  // What to send next, valid until taken() or next(); empty: nothing.
  std::span<const char> next() {
    while (rest().empty()) {
      if (file_) {
        read_file();
      } else if (!waiting_.empty()) {
        begin_file();
      } else if (!frames_.empty()) {
        begin_frame();
      } else {
        break;
      }
    }
    return rest();
  }
  void taken(std::size_t count) { at_ += count; }

 private:
  std::span<const char> rest() const { return std::span(piece_).subspan(at_); }
  void set(std::string piece) {
    piece_ = std::move(piece);
    at_ = 0;
  }

  void begin_frame() {
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    set(frame_header({frame.bytes.size(), frame.descriptors.size()}) + frame.bytes);
    for (Descriptor& descriptor : frame.descriptors) waiting_.push_back(std::move(descriptor));
  }

  void begin_file() {
    file_ = std::move(waiting_.front());
    waiting_.pop_front();
    struct stat status {};
    if (::fstat(file_->get(), &status) != 0) throw_errno("fstat", "bytes to send");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    offset_ = 0;
    left_ = size;
    set(std::string(reinterpret_cast<const char*>(&size), sizeof size));
  }

  void read_file() {
    if (left_ == 0) return file_.reset();
    std::string piece(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, left_)), '\0');
    const ssize_t got =
        ::pread(file_->get(), piece.data(), piece.size(), static_cast<off_t>(offset_));
    if (got < 0 && errno == EINTR) return;
    if (got < 0) throw_errno("read", "bytes to send");
    if (got == 0) {
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              "a file became shorter while it was sent");
    }
    piece.resize(static_cast<std::size_t>(got));
    offset_ += piece.size();
    left_ -= piece.size();
    set(std::move(piece));
  }

  std::deque<Frame> frames_;
  std::deque<Descriptor> waiting_;  // of the frame that was begun
  std::optional<Descriptor> file_;
  std::uint64_t offset_ = 0, left_ = 0;
  std::string piece_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<WorkerStream> make_unix_stream(int socket) {
  return std::make_unique<UnixStream>(socket);
}

struct TlsStream::Implementation {
  std::unique_ptr<SSL, inter::OpensslDeleter<SSL_free>> ssl;
  StreamParser parser;
  Pieces pieces;
  std::string refused_subject;
  std::uint64_t sent_bytes = 0;
  bool more = false;

  // What an operation that did not go on needs; throws the reason of one that never will.
  Needs needs(int result, int error, unsigned long queued) const {
    if (error == SSL_ERROR_WANT_READ) return Needs::reading;
    if (error == SSL_ERROR_WANT_WRITE) return Needs::writing;
    assert(result <= 0);
    throw inter::describe_tls_failure(ssl.get(), queued);
  }
};

TlsStream::TlsStream(int socket, const inter::TlsContext& context, inter::TlsRole role)
    : implementation_(std::make_unique<Implementation>()) {
  SSL* ssl = SSL_new(context.get());
  assert(ssl != nullptr);
  implementation_->ssl.reset(ssl);
  inter::tune(socket, kSilenceDeadline);
  BIO* bio = inter::make_socket_bio(socket).release();
  SSL_set_bio(ssl, bio, bio);
  SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  inter::remember_refused_subject(ssl, &implementation_->refused_subject);
  if (role == inter::TlsRole::client) {
    SSL_set_connect_state(ssl);
  } else {
    SSL_set_accept_state(ssl);
  }
}

TlsStream::~TlsStream() = default;

TlsStream::Needs TlsStream::handshake() {
  ERR_clear_error();
  SSL* ssl = implementation_->ssl.get();
  const int result = SSL_do_handshake(ssl);
  if (result == 1) {
    // What came with the end of the handshake no longer makes the socket readable.
    implementation_->more = SSL_has_pending(ssl) == 1;
    return Needs::nothing;
  }
  return implementation_->needs(result, SSL_get_error(ssl, result), ERR_peek_error());
}

std::string TlsStream::peer_region() const {
  return inter::peer_region(implementation_->ssl.get());
}

bool TlsStream::receive() {
  SSL* ssl = implementation_->ssl.get();
  std::array<std::byte, 64U << 10> piece;
  implementation_->more = false;
  for (std::size_t taken = 0; taken < kTurnBytes;) {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(ssl, piece.data(), piece.size(), &got);
    if (result == 1) {
      implementation_->parser.feed(std::span(piece).first(got));
      taken += got;
      continue;
    }
    const int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return true;
    if (error == SSL_ERROR_ZERO_RETURN) return false;
    if (ERR_peek_error() == 0 ||
        ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
      return false;
    const inter::LinkError failure = inter::describe_tls_failure(ssl, ERR_peek_error());
    if (failure.code() == inter::Errc::refused) throw failure;
    throw_lost(failure.reason());
  }
  implementation_->more = true;
  return true;
}

bool TlsStream::more() const {
  return implementation_->more;
}

std::optional<Frame> TlsStream::next() {
  return implementation_->parser.next();
}

void TlsStream::add(Frame frame) {
  implementation_->pieces.add(std::move(frame));
}

bool TlsStream::flush() {
  SSL* ssl = implementation_->ssl.get();
  for (auto piece = implementation_->pieces.next(); !piece.empty();
       piece = implementation_->pieces.next()) {
    ERR_clear_error();
    std::size_t sent = 0;
    const int result = SSL_write_ex(ssl, piece.data(), piece.size(), &sent);
    if (result != 1) {
      const int error = SSL_get_error(ssl, result);
      if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) return false;
      throw_lost("the connection to the other host broke");
    }
    implementation_->pieces.taken(sent);
    implementation_->sent_bytes += sent;
  }
  return true;
}

bool TlsStream::empty() const {
  return implementation_->pieces.empty();
}

std::uint64_t TlsStream::sent_bytes() const {
  return implementation_->sent_bytes;
}

}  // namespace causeway::diloco
