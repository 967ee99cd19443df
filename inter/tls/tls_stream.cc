#include "inter/tls/tls_stream.h"

#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <vector>

#include <openssl/err.h>

namespace causeway::inter {
namespace {

struct Socket {
  int descriptor;
  std::size_t gathered_bytes_max = 0;
  std::vector<char> waiting;  // [sent, end) is still to be sent
  std::size_t sent = 0;
};

Socket& socket_of(BIO* bio) {
  return *static_cast<Socket*>(BIO_get_data(bio));
}

bool is_transient(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

ssize_t send_some(const Socket& socket, const char* data, std::size_t size) {
  return ::send(socket.descriptor, data, size, MSG_NOSIGNAL);
}

bool send_waiting(Socket& socket) {
  while (socket.sent < socket.waiting.size()) {
    const ssize_t result =
        send_some(socket, socket.waiting.data() + socket.sent, socket.waiting.size() - socket.sent);
    if (result <= 0) return false;
    socket.sent += static_cast<std::size_t>(result);
  }
  socket.waiting.clear();
  socket.sent = 0;
  return true;
}

int finish_write(BIO* bio, ssize_t result, std::size_t* written) {
  if (is_transient(result)) BIO_set_retry_write(bio);
  *written = result > 0 ? static_cast<std::size_t>(result) : 0;
  return result > 0 ? 1 : 0;
}

int write_some(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
  BIO_clear_retry_flags(bio);
  Socket& socket = socket_of(bio);
  const bool full = socket.waiting.size() + size > socket.gathered_bytes_max;
  if (full && !send_waiting(socket)) return finish_write(bio, -1, written);
  if (size > socket.gathered_bytes_max)
    return finish_write(bio, send_some(socket, data, size), written);
  socket.waiting.insert(socket.waiting.end(), data, data + size);
  *written = size;
  return 1;
}

int read_some(BIO* bio, char* data, std::size_t size, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  const ssize_t result = ::recv(socket_of(bio).descriptor, data, size, 0);
  if (is_transient(result)) {
    BIO_set_retry_read(bio);
  } else if (result == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    errno = 0;
  }
  *got = result > 0 ? static_cast<std::size_t>(result) : 0;
  return result > 0 ? 1 : 0;
}

long flush(BIO* bio) {
  BIO_clear_retry_flags(bio);
  if (send_waiting(socket_of(bio))) return 1;
  std::size_t none = 0;
  return finish_write(bio, -1, &none);
}

long control(BIO* bio, int command, long size, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return flush(bio);
    case BIO_C_SET_BUFF_SIZE:
      socket_of(bio).gathered_bytes_max = static_cast<std::size_t>(size);
      return 1;
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    default:
      return 0;
  }
}

int destroy(BIO* bio) {
  delete &socket_of(bio);
  return 1;
}

const BIO_METHOD* method() {
  static const BIO_METHOD* const made_once = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    const bool complete = made != nullptr && BIO_meth_set_write_ex(made, write_some) == 1 &&
                          BIO_meth_set_read_ex(made, read_some) == 1 &&
                          BIO_meth_set_ctrl(made, control) == 1 &&
                          BIO_meth_set_destroy(made, destroy) == 1;
    assert(complete);
    return made;
  }();
  return made_once;
}

}  // namespace

BioPtr make_socket_bio(int socket) {
  BioPtr bio(BIO_new(method()));
  assert(bio != nullptr);
  BIO_set_data(bio.get(), new Socket{socket, 0, {}, 0});
  BIO_set_init(bio.get(), 1);
  return bio;
}

TlsStream::TlsStream(BioPtr below, const TlsContext& context, TlsRole role,
                     std::uint64_t records_a_key)
    : ssl_(SSL_new(context.get())), records_a_key_(records_a_key) {
  assert(ssl_ && below);
  remember_refused(ssl_.get(), &refused_);
  role == TlsRole::client ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  BIO* const bio = below.release();
  SSL_set_bio(ssl_.get(), bio, bio);  // which owns it
}

template <typename Call>
TlsStream::Step TlsStream::step(Call call) {
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = call(ssl_.get(), bytes);
  const int system_error = errno;
  if (result > 0) return {Outcome::done, bytes};
  const int verdict = SSL_get_error(ssl_.get(), result);
  if (verdict == SSL_ERROR_WANT_READ) return {Outcome::wants_reading};
  if (verdict == SSL_ERROR_WANT_WRITE) return {Outcome::wants_writing};
  if (verdict == SSL_ERROR_ZERO_RETURN && handshaken_) return {Outcome::ended};
  fail(verdict, system_error);
}

void TlsStream::fail(int verdict, int system_error) {
  lost_ = true;
  const unsigned long error = ERR_peek_error();
  const bool cut_off = ERR_GET_LIB(error) == ERR_LIB_SSL &&
                       ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (cut_off || verdict == SSL_ERROR_ZERO_RETURN ||
      (verdict == SSL_ERROR_SYSCALL && system_error == 0)) {
    throw LinkError(std::make_error_code(std::errc::connection_aborted),
                    handshaken_ ? "the connection was cut off: the peer did not close it"
                                : "the peer closed the connection during the TLS handshake");
  }
  if (verdict == SSL_ERROR_SYSCALL) {
    const std::error_code code(system_error, std::system_category());
    throw LinkError(code, code.message());
  }
  // Only what comes after the handshake is from whom the peer's certificate names.
  if (handshaken_ && ERR_GET_REASON(error) == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED) {
    throw LinkError(Errc::revoked,
                    "our certificate was refused: certificate revoked (`causeway certs renew` "
                    "makes a new one, if this region is still to take part)");
  }
  throw describe_tls_failure(ssl_.get(), error);
}

TlsStream::Step TlsStream::handshake() {
  const Step made = step([](SSL* ssl, std::size_t&) { return SSL_do_handshake(ssl); });
  handshaken_ = made.outcome == Outcome::done;
  return made;
}

TlsStream::Step TlsStream::read(std::span<std::byte> into) {
  return step([into](SSL* ssl, std::size_t& got) {
    return SSL_read_ex(ssl, into.data(), into.size(), &got);
  });
}

TlsStream::Step TlsStream::write(std::span<const std::byte> bytes) {
  change_key_if_due();
  const Step written = step([bytes](SSL* ssl, std::size_t& size) {
    return SSL_write_ex(ssl, bytes.data(), bytes.size(), &size);
  });
  if (written.outcome == Outcome::done) records_ += written.bytes / SSL3_RT_MAX_PLAIN_LENGTH + 1;
  return written;
}

// OpenSSL never does so by itself. It tells the other end in front of the next record.
void TlsStream::change_key_if_due() {
  if (records_ < records_a_key_) return;
  records_ = 0;
  ERR_clear_error();
  SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
}

TlsStream::Step TlsStream::flush() {
  ERR_clear_error();
  errno = 0;
  BIO* const below = SSL_get_wbio(ssl_.get());
  if (BIO_flush(below) == 1) return {Outcome::done};
  const int system_error = errno;
  if (BIO_should_retry(below)) return {Outcome::wants_writing};
  fail(SSL_ERROR_SYSCALL, system_error);
}

void TlsStream::gather(std::size_t bytes) {
  BIO_set_write_buffer_size(SSL_get_wbio(ssl_.get()), bytes);
}

void TlsStream::end() {
  const bool said = (SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) != 0;
  if (handshaken_ && !lost_ && !said) {
    ERR_clear_error();
    gather(0);
    BIO_flush(SSL_get_wbio(ssl_.get()));
    SSL_shutdown(ssl_.get());
  }
}

bool TlsStream::has_pending() const {
  return SSL_has_pending(ssl_.get()) == 1;
}

std::string TlsStream::peer_region() const {
  return inter::peer_region(ssl_.get());
}

bool TlsStream::is_revoked(const TlsContext& context) const {
  return inter::is_revoked(ssl_.get(), context.get());
}

std::uint64_t TlsStream::read_bytes() const {
  return BIO_number_read(SSL_get_rbio(ssl_.get()));
}

std::uint64_t TlsStream::written_bytes() const {
  return BIO_number_written(SSL_get_wbio(ssl_.get()));
}

}  // namespace causeway::inter
