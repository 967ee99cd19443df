#include "inter/tls/tls.h"

#include <openssl/err.h>

#include <string_view>

#include <spdlog/spdlog.h>

#include "inter/base/limits.h"
#include "inter/tls/certificate.h"

namespace causeway::inter {
namespace {

[[noreturn]] void cannot_use(const std::filesystem::path& file) {
  throw_bad_credentials("cannot use " + file.string());
}

int refused_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

std::string validity_of(const X509* certificate) {
  return "from " + date_of(X509_get0_notBefore(certificate)) + " to " +
         date_of(X509_get0_notAfter(certificate));
}

// The day alone: a reason that is the same as before is logged once (LogThrottle).
std::string today() {
  const std::unique_ptr<ASN1_TIME, OpensslDeleter<ASN1_TIME_free>> now(X509_gmtime_adj(nullptr, 0));
  return date_of(now.get()).substr(0, std::string_view("2026-01-31").size());
}

int on_verified(int ok, X509_STORE_CTX* store) {
  if (ok == 0) {
    const auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* refused = static_cast<RefusedCertificate*>(SSL_get_ex_data(ssl, refused_index()));
    if (refused == nullptr) return ok;
    if (const X509* leaf = X509_STORE_CTX_get0_cert(store); leaf != nullptr)
      refused->subject = subject_of(leaf);
    if (const X509* at_fault = X509_STORE_CTX_get_current_cert(store); at_fault != nullptr)
      refused->validity = validity_of(at_fault);
  }
  return ok;
}

// With another authority's list every certificate of a peer would be refused.
void check_revocations(X509_CRL* revocations, const Credentials& credentials) {
  const CertificatePtr authority = load_certificate(credentials.ca_certificate);
  if (X509_CRL_verify(revocations, X509_get0_pubkey(authority.get())) == 1) return;
  ERR_clear_error();
  throw std::system_error(
      Errc::bad_credentials,
      "the revocation list " + credentials.revocations.string() + " is not from the authority in " +
          credentials.ca_certificate.string() +
          ": copy both from where ca.key is, or remove the list if nobody was revoked there");
}

void use_revocations(SSL_CTX* context, const Credentials& credentials) {
  const CrlPtr revocations = load_revocations(credentials.revocations);
  if (!revocations) return;
  check_revocations(revocations.get(), credentials);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  if (X509_STORE_add_crl(store, revocations.get()) != 1 ||
      X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) != 1) {
    cannot_use(credentials.revocations);
  }
}

// TLS 1.3's key exchanges that cost a stranger about as much as us. With finite fields of 8192
// bits, which OpenSSL offers by itself, ten hellos a second cost a core.
void use_cheap_key_exchanges(SSL_CTX* context) {
  constexpr const char* kWithPostQuantum = "X25519MLKEM768:X25519:P-256";  // OpenSSL 3.5 and later
  constexpr const char* kEverywhere = "X25519:P-256";
  if (SSL_CTX_set1_groups_list(context, kWithPostQuantum) != 1 &&
      SSL_CTX_set1_groups_list(context, kEverywhere) != 1) {
    throw std::system_error(std::make_error_code(std::errc::protocol_not_supported),
                            "this OpenSSL has neither X25519 nor P-256: " + take_openssl_error());
  }
  ERR_clear_error();
}

void check_private(const std::filesystem::path& key) {
  if (const std::string problem = open_key_problem(key); !problem.empty())
    throw std::system_error(Errc::bad_credentials, problem);
}

// A peer that met this reason was never going to speak TLS.
bool is_plaintext(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
         reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_UNKNOWN_PROTOCOL ||
         reason == SSL_R_UNEXPECTED_MESSAGE || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
         reason == SSL_R_RECORD_LENGTH_MISMATCH || reason == SSL_R_BAD_RECORD_TYPE;
}

// What a record that changed on the way looks like.
bool is_damage(int reason) {
  return is_plaintext(reason) || reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC ||
         reason == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC || reason == SSL_R_TLSV1_ALERT_RECORD_OVERFLOW;
}

// Empty: it is valid today.
std::string why_not_today(const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return "has expired on " + date_of(X509_get0_notAfter(certificate)) +
           " (`causeway certs renew` makes a new one, if this host's clock is right)";
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return "is not yet valid: it begins on " + date_of(X509_get0_notBefore(certificate)) +
           " (is this host's clock right?)";
  }
  return "";
}

// Empty: it was not.
std::string why_revoked(const X509* certificate, const Credentials& credentials) {
  const CrlPtr revocations = load_revocations(credentials.revocations);
  return lists(revocations.get(), X509_get0_serialNumber(certificate))
             ? "was revoked (`causeway certs renew` makes a new one)"
             : "";
}

[[noreturn]] void refuse_own(Errc code, const Credentials& credentials,
                             const std::string& problem) {
  throw std::system_error(
      code, credentials.certificate.string() + " " + problem + ", and every peer would refuse it");
}

LinkError describe_verification(const SSL* ssl, long verdict) {
  const auto* known = static_cast<const RefusedCertificate*>(SSL_get_ex_data(ssl, refused_index()));
  const RefusedCertificate refused = known == nullptr ? RefusedCertificate{} : *known;
  const std::string whose = refused.subject.empty() ? "" : " (" + refused.subject + ")";
  const std::string said =
      "the peer's certificate" + whose + " was refused: " + X509_verify_cert_error_string(verdict);
  const bool is_of_dates =
      verdict == X509_V_ERR_CERT_NOT_YET_VALID || verdict == X509_V_ERR_CERT_HAS_EXPIRED;
  if (!is_of_dates) return {Errc::refused, said};
  const std::string validity =
      refused.validity.empty() ? "" : "it is valid " + refused.validity + ", and ";
  return {Errc::not_valid_today, said + "; " + validity + "this host's clock says " + today() +
                                     ": renew it, or set the clock right"};
}

// OpenSSL says "bad certificate" of one that is not yet valid, and of little else that can meet a
// certificate that our own authority signed.
bool is_alert_of_dates(int alert) {
  return alert == SSL_AD_CERTIFICATE_EXPIRED || alert == SSL_AD_BAD_CERTIFICATE;
}

// By which clock ours is not valid: this host's, or else the peer's.
std::string own_dates(const SSL* ssl) {
  const X509* own = SSL_get_certificate(ssl);
  if (own == nullptr) return "";
  if (const std::string problem = why_not_today(own); !problem.empty()) return "; ours " + problem;
  return "; ours is valid " + validity_of(own) + ", and this host's clock says " + today() +
         ": the peer's clock says something else. Set the wrong one right";
}

}  // namespace

bool is_revoked(const SSL* ssl, SSL_CTX* context) {
  X509* certificate = SSL_get0_peer_certificate(ssl);
  const std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>> check(
      X509_STORE_CTX_new());
  return certificate != nullptr && check != nullptr &&
         X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), certificate, nullptr) ==
             1 &&
         X509_verify_cert(check.get()) != 1 &&
         X509_STORE_CTX_get_error(check.get()) == X509_V_ERR_CERT_REVOKED;
}

TlsContext make_tls_context(const Credentials& credentials, TlsRole role) {
  ERR_clear_error();
  TlsContext owned(SSL_CTX_new(role == TlsRole::client ? TLS_client_method() : TLS_server_method()),
                   SSL_CTX_free);
  SSL_CTX* context = owned.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context,
                               "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                               "TLS_CHACHA20_POLY1305_SHA256") != 1) {
    throw std::system_error(std::make_error_code(std::errc::protocol_not_supported),
                            "this OpenSSL has no TLS 1.3: " + take_openssl_error());
  }
  use_cheap_key_exchanges(context);
  if (SSL_CTX_load_verify_file(context, credentials.ca_certificate.c_str()) != 1)
    cannot_use(credentials.ca_certificate);
  if (SSL_CTX_use_certificate_file(context, credentials.certificate.c_str(), SSL_FILETYPE_PEM) !=
      1) {
    cannot_use(credentials.certificate);
  }
  // With a certificate of another authority all others would refuse it, and it them.
  const std::string issuer = issuer_problem(SSL_CTX_get0_certificate(context),
                                            SSL_CTX_get_cert_store(context), credentials);
  if (!issuer.empty()) throw std::system_error(Errc::bad_credentials, issuer);
  use_revocations(context, credentials);
  check_private(credentials.key);
  if (SSL_CTX_use_PrivateKey_file(context, credentials.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    cannot_use(credentials.key);
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verified);
  SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN);  // every peer has the CA's certificate
  // A write that goes on may bring the same bytes at another place.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Several records a system call.
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  // No resumption: every connection proves its certificate anew.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  return owned;
}

void check_dates(const Credentials& credentials) {
  const std::string problem = why_not_today(load_certificate(credentials.certificate).get());
  if (!problem.empty()) refuse_own(Errc::not_valid_today, credentials, problem);
}

void check_own_certificate(const Credentials& credentials, const std::string& region,
                           Validity validity) {
  const CertificatePtr certificate = load_certificate(credentials.certificate);
  const std::string file = credentials.certificate.string();
  const std::string named = name_problem(certificate.get(), credentials.certificate, region);
  if (!named.empty()) throw std::system_error(Errc::bad_name, named);
  const std::string dates = why_not_today(certificate.get());
  const std::string problem = dates.empty() ? why_revoked(certificate.get(), credentials) : dates;
  if (!problem.empty() && validity == Validity::required)
    refuse_own(dates.empty() ? Errc::bad_credentials : Errc::not_valid_today, credentials, problem);
  if (!problem.empty()) spdlog::warn("{}: {} {}; peers will refuse it", region, file, problem);
}

std::string peer_region(const SSL* ssl) {
  const X509* certificate = SSL_get0_peer_certificate(ssl);
  if (certificate == nullptr) throw LinkError(Errc::refused, "the peer showed no certificate");
  const auto names = dns_names(certificate);
  if (names.size() != 1 || names[0].empty()) {
    throw LinkError(Errc::refused, "the peer's certificate (" + subject_of(certificate) +
                                       ") names no region, or more than one");
  }
  return names[0];
}

LinkError describe_tls_failure(const SSL* ssl, unsigned long error) {
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return describe_verification(ssl, SSL_get_verify_result(ssl));
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return {Errc::refused, "the peer showed no client certificate"};
  if (reason == SSL_R_UNSUPPORTED_PROTOCOL)
    return {Errc::not_tls, "the peer speaks only TLS versions older than 1.3"};
  const char* text = ERR_reason_error_string(error);
  const bool agreed = SSL_get_current_cipher(ssl) != nullptr;
  if (!agreed && is_plaintext(reason)) return {Errc::not_tls, "the peer does not speak TLS"};
  if (agreed && is_damage(reason)) {
    return {std::make_error_code(std::errc::bad_message),
            std::string("TLS failed: a record arrived damaged or forged: ") + text};
  }
  if (reason >= SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    const bool of_dates = is_alert_of_dates(alert);
    return {of_dates ? Errc::not_valid_today : Errc::refused,
            std::string("the peer refused our certificate or TLS: ") +
                SSL_alert_desc_string_long(alert) + (of_dates ? own_dates(ssl) : "")};
  }
  return {Errc::refused, std::string("TLS failed: ") + (text == nullptr ? "unknown" : text)};
}

void remember_refused(SSL* ssl, RefusedCertificate* refused) {
  SSL_set_ex_data(ssl, refused_index(), refused);
}

}  // namespace causeway::inter
