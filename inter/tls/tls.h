// TLS 1.3, mutual, under the run's own CA: contexts, the peer's region, and failures in words.
// Plain OpenSSL, no asio::ssl.
#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

#include "inter/base/error.h"
#include "inter/base/openssl.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

enum class TlsRole { client, server };

using TlsContext = std::shared_ptr<SSL_CTX>;

// Throws std::system_error naming the file that cannot be used, be it that other users may read the
// key, or that the CA did not sign the certificate. A list of revocations is used if it exists.
TlsContext make_tls_context(const Credentials& credentials, TlsRole role);

// Whether the revocations that `context` knows list the certificate of this (older) connection's
// peer.
bool is_revoked(const SSL* ssl, SSL_CTX* context);

// Throws std::system_error (Errc::not_valid_today) if our certificate has expired, or is not yet
// valid as this host's clock says.
void check_dates(const Credentials& credentials);

// Of our own certificate today. Where links stand that it made, it is only missed.
enum class Validity { required, missed };

// Throws std::system_error if our certificate is not for `region`, or was revoked, and as
// check_dates(); with Validity::missed all but the name is logged.
void check_own_certificate(const Credentials& credentials, const std::string& region,
                           Validity validity);

// The region that the peer's certificate is for. Throws LinkError (Errc::refused) unless it has
// exactly one DNS name.
std::string peer_region(const SSL* ssl);

// Why a TLS operation failed, for a log: `error` is what OpenSSL's error queue held.
LinkError describe_tls_failure(const SSL* ssl, unsigned long error);

// The certificate that a failed verification was about.
struct RefusedCertificate {
  std::string subject;
  std::string validity;  // "from ... to ..." of it, or of the authority that was not valid
};
// Fills in `refused`, which must outlive `ssl`, when a verification fails.
void remember_refused(SSL* ssl, RefusedCertificate* refused);

}  // namespace causeway::inter
