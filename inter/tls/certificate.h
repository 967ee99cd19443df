// Reading certificates. Internal to inter.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inter/base/openssl.h"

namespace causeway::inter {

CertificatePtr load_certificate(const std::filesystem::path& file);  // throws naming the file

// Null if there is no such file; throws naming one that cannot be read.
CrlPtr load_revocations(const std::filesystem::path& file);

// Whether the list has a certificate's number. Null lists nothing.
bool lists(X509_CRL* revocations, const ASN1_INTEGER* serial);

std::vector<std::string> dns_names(const X509* certificate);

std::string subject_of(const X509* certificate);  // one line, printable
std::string issuer_of(const X509* certificate);   // the same
std::string date_of(const ASN1_TIME* time);       // ISO 8601, UTC

}  // namespace causeway::inter
