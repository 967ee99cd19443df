#include "inter/tls/make_certificate.h"

#include <memory>
#include <system_error>

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

namespace causeway::inter {
namespace {

void set_random_serial(X509* certificate) {
  unsigned char bytes[16];
  check_openssl(RAND_bytes(bytes, sizeof bytes) == 1, "no randomness for a serial number");
  bytes[0] &= 0x7f;  // positive
  const std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>> number(
      BN_bin2bn(bytes, sizeof bytes, nullptr));
  check_openssl(
      number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
      "cannot set a serial number");
}

void set_dates(X509* certificate, const CertificateDates& dates) {
  const auto ends_in = dates.starts_in + std::chrono::seconds(dates.lasts);
  check_openssl(
      X509_gmtime_adj(X509_getm_notBefore(certificate), dates.starts_in.count()) != nullptr &&
          X509_gmtime_adj(X509_getm_notAfter(certificate), ends_in.count()) != nullptr,
      "cannot set a certificate's dates");
}

void set_common_name(X509_NAME* name, const std::string& text) {
  check_openssl(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                           reinterpret_cast<const unsigned char*>(text.c_str()), -1,
                                           -1, 0) == 1,
                "cannot set a certificate's name (at most 64 characters)");
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, OpensslDeleter<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  check_openssl(extension && X509_add_ext(certificate, extension.get(), -1) == 1,
                "cannot add a certificate extension");
}

// What a CA's and a region's certificate have in common; unsigned. No issuer: itself.
CertificatePtr begin_certificate(const std::string& name, EVP_PKEY* key, X509* issuer,
                                 const CertificateDates& dates) {
  CertificatePtr certificate(X509_new());
  check_openssl(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                    X509_set_pubkey(certificate.get(), key) == 1,
                "cannot make a certificate");
  set_random_serial(certificate.get());
  set_dates(certificate.get(), dates);
  set_common_name(X509_get_subject_name(certificate.get()), name);
  X509* signer = issuer == nullptr ? certificate.get() : issuer;
  check_openssl(X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer)) == 1,
                "cannot set a certificate's issuer");
  add_extension(certificate.get(), signer, NID_subject_key_identifier, "hash");
  add_extension(certificate.get(), signer, NID_authority_key_identifier, "keyid:always");
  return certificate;
}

void sign_certificate(X509* certificate, EVP_PKEY* key) {
  // Ed25519 brings its own digest.
  check_openssl(X509_sign(certificate, key, nullptr) > 0, "cannot sign a certificate");
}

}  // namespace

void check_openssl(bool succeeded, const char* operation) {
  if (succeeded) return;
  throw std::system_error(std::make_error_code(std::errc::io_error),
                          std::string(operation) + ": " + take_openssl_error());
}

KeyPtr make_key() {
  KeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  check_openssl(key != nullptr, "cannot make an Ed25519 key");
  return key;
}

CertificatePtr make_ca_certificate(const std::string& name, EVP_PKEY* key,
                                   const CertificateDates& dates) {
  CertificatePtr certificate = begin_certificate(name, key, nullptr, dates);
  X509* ca = certificate.get();
  add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign");
  sign_certificate(ca, key);
  return certificate;
}

CertificatePtr make_certificate(const std::string& name, EVP_PKEY* key, X509* ca, EVP_PKEY* ca_key,
                                const CertificateDates& dates) {
  CertificatePtr owned = begin_certificate(name, key, ca, dates);
  X509* certificate = owned.get();
  add_extension(certificate, ca, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate, ca, NID_key_usage, "critical,digitalSignature");
  add_extension(certificate, ca, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(certificate, ca, NID_subject_alt_name, "DNS:" + name);
  sign_certificate(certificate, ca_key);
  return owned;
}

CrlPtr make_revocations(const X509* ca) {
  CrlPtr list(X509_CRL_new());
  check_openssl(list && X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1 &&
                    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(ca)) == 1 &&
                    X509_CRL_set1_lastUpdate(list.get(), X509_get0_notBefore(ca)) == 1 &&
                    X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(ca)) == 1,
                "cannot make a revocation list");
  return list;
}

void add_revoked(X509_CRL* list, ASN1_INTEGER* serial) {
  std::unique_ptr<X509_REVOKED, OpensslDeleter<X509_REVOKED_free>> entry(X509_REVOKED_new());
  const std::unique_ptr<ASN1_TIME, OpensslDeleter<ASN1_TIME_free>> now(X509_gmtime_adj(nullptr, 0));
  check_openssl(entry && now && X509_REVOKED_set_serialNumber(entry.get(), serial) == 1 &&
                    X509_REVOKED_set_revocationDate(entry.get(), now.get()) == 1 &&
                    X509_CRL_add0_revoked(list, entry.get()) == 1,
                "cannot extend the revocation list");
  static_cast<void>(entry.release());  // the list owns it now
}

void sign_revocations(X509_CRL* list, EVP_PKEY* ca_key) {
  check_openssl(X509_CRL_sort(list) == 1 && X509_CRL_sign(list, ca_key, nullptr) > 0,
                "cannot sign the revocation list");
}

BioPtr pem_of(EVP_PKEY* key) {
  BioPtr pem(BIO_new(BIO_s_secmem()));
  check_openssl(
      pem && PEM_write_bio_PrivateKey(pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "cannot encode a private key");
  return pem;
}

BioPtr pem_of(X509* certificate) {
  BioPtr pem(BIO_new(BIO_s_mem()));
  check_openssl(pem && PEM_write_bio_X509(pem.get(), certificate) == 1,
                "cannot encode a certificate");
  return pem;
}

BioPtr pem_of(X509_CRL* revocations) {
  BioPtr pem(BIO_new(BIO_s_mem()));
  check_openssl(pem && PEM_write_bio_X509_CRL(pem.get(), revocations) == 1,
                "cannot encode the revocation list");
  return pem;
}

}  // namespace causeway::inter
