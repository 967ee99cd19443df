// Reading certificates. Internal to inter.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "inter/base/openssl.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

CertificatePtr load_certificate(const std::filesystem::path& file);  // throws naming the file

// Empty: one of `authorities`, which are those of `files`, issued it. Dates are not looked at.
std::string issuer_problem(X509* certificate, X509_STORE* authorities, const Credentials& files);
// Empty: it is for `name`, and for no other. `file`: where it was read.
std::string name_problem(const X509* certificate, const std::filesystem::path& file,
                         const std::string& name);

// Null if there is no such file; throws naming one that cannot be read.
CrlPtr load_revocations(const std::filesystem::path& file);

// Whether the list has a certificate's number. Null lists nothing.
bool lists(X509_CRL* revocations, const ASN1_INTEGER* serial);

std::vector<std::string> dns_names(const X509* certificate);

std::string subject_of(const X509* certificate);  // one line, printable
std::string issuer_of(const X509* certificate);   // the same
std::string date_of(const ASN1_TIME* time);       // ISO 8601, UTC

// Which certificates a CA has issued: ca.issued beside its key, a line "NAME SERIAL" for each, the
// serial as `openssl x509 -serial` prints it. A region that was renewed has several that are valid,
// and to revoke it means all of them.
using SerialPtr = std::unique_ptr<ASN1_INTEGER, OpensslDeleter<ASN1_INTEGER_free>>;

// Oldest first; none if there is no such file. Throws Errc::bad_credentials naming a line that
// cannot be read.
std::vector<SerialPtr> issued_to(const std::filesystem::path& directory, const std::string& name);

// Unless it is known. On disk when this returns.
void remember_issued(const std::filesystem::path& directory, const std::string& name,
                     const X509* certificate);

}  // namespace causeway::inter
