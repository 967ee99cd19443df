#include "inter/tls/certificate.h"

#include <cstdio>
#include <ctime>
#include <system_error>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "inter/base/printable.h"
#include "inter/tls/pki.h"

namespace causeway::inter {
namespace {

std::string to_text(const X509_NAME* name) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  // Escapes control characters, as the name may be a stranger's.
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string fingerprint(const X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), digest, &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    char pair[4];
    std::snprintf(pair, sizeof pair, i == 0 ? "%02X" : ":%02X", digest[i]);
    text += pair;
  }
  return text;
}

}  // namespace

CertificatePtr load_certificate(const std::filesystem::path& file) {
  const BioPtr pem(BIO_new_file(file.c_str(), "r"));
  CertificatePtr certificate(pem ? PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr)
                                 : nullptr);
  if (!certificate) {
    throw_bad_credentials("cannot read the certificate " + file.string());
  }
  return certificate;
}

CrlPtr load_revocations(const std::filesystem::path& file) {
  if (file.empty() || !std::filesystem::exists(file)) {
    return nullptr;
  }
  const BioPtr pem(BIO_new_file(file.c_str(), "r"));
  CrlPtr revocations(pem ? PEM_read_bio_X509_CRL(pem.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!revocations) {
    throw_bad_credentials("cannot read the revocation list " + file.string());
  }
  return revocations;
}

bool lists(X509_CRL* revocations, const ASN1_INTEGER* serial) {
  X509_REVOKED* entry = nullptr;
  return revocations != nullptr &&
         X509_CRL_get0_by_serial(revocations, &entry, const_cast<ASN1_INTEGER*>(serial)) == 1;
}

std::vector<std::string> dns_names(const X509* certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    if (name->type == GEN_DNS) {
      const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
      names.emplace_back(data, static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    }
  }
  GENERAL_NAMES_free(list);
  return names;
}

std::string subject_of(const X509* certificate) {
  return printable(to_text(X509_get_subject_name(certificate))).substr(0, 200);
}

std::string issuer_of(const X509* certificate) {
  return printable(to_text(X509_get_issuer_name(certificate))).substr(0, 200);
}

std::string date_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return "invalid date";
  }
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

CertificateInfo describe_certificate(const std::filesystem::path& file) {
  const CertificatePtr certificate = load_certificate(file);
  const X509* x509 = certificate.get();
  int days_left = 0;
  int seconds_left = 0;
  ASN1_TIME_diff(&days_left, &seconds_left, nullptr, X509_get0_notAfter(x509));
  return {to_text(X509_get_subject_name(x509)),
          to_text(X509_get_issuer_name(x509)),
          date_of(X509_get0_notBefore(x509)),
          date_of(X509_get0_notAfter(x509)),
          fingerprint(x509),
          dns_names(x509),
          seconds_left < 0 ? days_left - 1 : days_left};
}

}  // namespace causeway::inter
