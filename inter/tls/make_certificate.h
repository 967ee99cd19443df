// Making keys, certificates and lists of revoked ones, in memory. What OpenSSL refuses is thrown as
// std::errc::io_error with its reason. Internal to inter.
#pragma once

#include <chrono>
#include <string>

#include "inter/base/openssl.h"

namespace causeway::inter {

void check_openssl(bool succeeded, const char* operation);  // throws

KeyPtr make_key();

struct CertificateDates {
  std::chrono::seconds starts_in;  // may be negative
  std::chrono::days lasts;
};

// A CA's, signed by itself.
CertificatePtr make_ca_certificate(const std::string& name, EVP_PKEY* key,
                                   const CertificateDates& dates);
// For both ends of a link, issued by a CA. `name` is its only DNS name.
CertificatePtr make_certificate(const std::string& name, EVP_PKEY* key, X509* ca, EVP_PKEY* ca_key,
                                const CertificateDates& dates);

// Valid as long as the CA is: there is nobody who would fetch a new one every week. To be signed.
CrlPtr make_revocations(const X509* ca);
void add_revoked(X509_CRL* list, ASN1_INTEGER* serial);
void sign_revocations(X509_CRL* list, EVP_PKEY* ca_key);

BioPtr pem_of(EVP_PKEY* key);  // in memory that is wiped
BioPtr pem_of(X509* certificate);
BioPtr pem_of(X509_CRL* revocations);

}  // namespace causeway::inter
