// One end of a TLS connection, without waiting: plain bytes above, records over any BIO below, be
// it a socket's or one in memory. Links between coordinators and workers on other hosts stand on
// it. How a connection ended is decided here, once: a peer that says so has ended it, and a stream
// that stops without that word was cut off, which is a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "inter/base/error.h"
#include "inter/base/openssl.h"
#include "inter/tls/tls.h"

namespace causeway::inter {

// OpenSSL over a socket that Asio owns. OpenSSL's own socket BIO would raise SIGPIPE when a peer is
// gone, and makes a system call of every record.
// Reads and writes `socket`, which must be non-blocking, and does not close it. Counts what passes
// (BIO_number_read, BIO_number_written).
//
// BIO_set_write_buffer_size: from then on what is written waits until so many bytes are together,
// or until BIO_flush: a stream of records costs a third less by the quarter of a megabyte than one
// by one. 0: nothing waits. BIO_flush fails, and BIO_should_retry, while the socket takes no more.
BioPtr make_socket_bio(int socket);

class TlsStream {
 public:
  // `wants_...`: nothing was done; call again when the BIO below can be read or written.
  enum class Outcome { done, wants_reading, wants_writing, ended };
  struct Step {
    Outcome outcome = Outcome::done;
    std::size_t bytes = 0;  // that were moved
  };

  // With AES-GCM no more than 2^24.5 records may be protected by one key (RFC 8446, 5.5): some
  // 380 GB, or the small messages of half a year, which a link that stays up for months sends.
  static constexpr std::uint64_t kRecordsAKey = 1U << 23;

  // The BIO is non-blocking and owned from here on. After so many records that are written here
  // the others have a new key; the other end counts its own.
  TlsStream(BioPtr below, const TlsContext& context, TlsRole role,
            std::uint64_t records_a_key = kRecordsAKey);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // These throw LinkError with the reason if the stream is lost. Only read() comes to `ended`.
  Step handshake();  // first, until done
  Step read(std::span<std::byte> into);
  // A call that is repeated is given the same bytes.
  Step write(std::span<const std::byte> bytes);
  Step flush();  // what gather() held back

  // From now on records wait in the BIO below, if it can, until so many bytes are together, or
  // until flush(). 0: nothing waits.
  void gather(std::size_t bytes);

  // Tells the peer that nothing follows. Nothing is said on a stream that is lost, that waits in
  // the middle of a record, or whose BIO takes no more.
  void end();

  // read() has bytes to give that no longer make the BIO below readable.
  bool has_pending() const;

  // After handshake().
  std::string peer_region() const;  // that its certificate is for; throws LinkError
  bool is_revoked(const TlsContext& context) const;

  // Below: records and handshakes.
  std::uint64_t read_bytes() const;
  std::uint64_t written_bytes() const;

 private:
  template <typename Call>
  Step step(Call call);
  [[noreturn]] void fail(int verdict, int system_error);
  void change_key_if_due();

  SslPtr ssl_;
  std::uint64_t records_a_key_;
  std::uint64_t records_ = 0;  // written with the key of now
  RefusedCertificate refused_;
  bool handshaken_ = false;
  bool lost_ = false;
};

}  // namespace causeway::inter
