#include "inter/tls/tls_stream.h"

#include <openssl/err.h>

#include <cassert>
#include <cerrno>

namespace causeway::inter {

TlsStream::TlsStream(BioPtr below, const TlsContext& context, TlsRole role)
    : ssl_(SSL_new(context.get())) {
  assert(ssl_ && below);
  remember_refused_subject(ssl_.get(), &refused_subject_);
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
  if (result > 0) {
    return {Outcome::done, bytes};
  }
  const int verdict = SSL_get_error(ssl_.get(), result);
  if (verdict == SSL_ERROR_WANT_READ) {
    return {Outcome::wants_reading};
  }
  if (verdict == SSL_ERROR_WANT_WRITE) {
    return {Outcome::wants_writing};
  }
  if (verdict == SSL_ERROR_ZERO_RETURN && handshaken_) {
    return {Outcome::ended};
  }
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
  return step([bytes](SSL* ssl, std::size_t& written) {
    return SSL_write_ex(ssl, bytes.data(), bytes.size(), &written);
  });
}

TlsStream::Step TlsStream::flush() {
  ERR_clear_error();
  errno = 0;
  BIO* const below = SSL_get_wbio(ssl_.get());
  if (BIO_flush(below) == 1) {
    return {Outcome::done};
  }
  const int system_error = errno;
  if (BIO_should_retry(below)) {
    return {Outcome::wants_writing};
  }
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
