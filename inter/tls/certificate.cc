#include "inter/tls/certificate.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <span>
#include <sstream>
#include <system_error>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "inter/base/atomic_file.h"
#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/text.h"

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
  if (!certificate) throw_bad_credentials("cannot read the certificate " + file.string());
  return certificate;
}

std::string issuer_problem(X509* certificate, X509_STORE* authorities, const Credentials& files) {
  const std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>> check(
      X509_STORE_CTX_new());
  if (!check || X509_STORE_CTX_init(check.get(), authorities, certificate, nullptr) != 1)
    throw_bad_credentials("cannot check " + files.certificate.string());
  X509_STORE_CTX_set_flags(check.get(), X509_V_FLAG_NO_CHECK_TIME);
  if (X509_verify_cert(check.get()) == 1) return {};
  const CertificatePtr authority = load_certificate(files.ca_certificate);
  return files.ca_certificate.string() + " (" + subject_of(authority.get()) + ") did not sign " +
         files.certificate.string() + " (" + subject_of(certificate) + ", issued by " +
         issuer_of(certificate) +
         "): " + X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get())) +
         "; take all three files from the same `causeway certs` directory";
}

std::string name_problem(const X509* certificate, const std::filesystem::path& file,
                         const std::string& name) {
  const auto names = dns_names(certificate);
  if (names == std::vector{name}) return {};
  const std::string maker = is_follower(name)   ? "add-follower"
                            : is_observer(name) ? "add-observer"
                                                : "add-region";
  return file.string() + " is for \"" + (names.empty() ? "" : names[0]) + "\", not for \"" + name +
         "\": `causeway certs " + maker + "` makes one";
}

CrlPtr load_revocations(const std::filesystem::path& file) {
  if (file.empty() || !std::filesystem::exists(file)) return nullptr;
  const BioPtr pem(BIO_new_file(file.c_str(), "r"));
  CrlPtr revocations(pem ? PEM_read_bio_X509_CRL(pem.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!revocations) throw_bad_credentials("cannot read the revocation list " + file.string());
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
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "invalid date";
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

namespace {

double unix_s_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<double>(::timegm(&parts)) : 0;
}

}  // namespace

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
          seconds_left < 0 ? days_left - 1 : days_left,
          unix_s_of(X509_get0_notAfter(x509))};
}

std::optional<double> valid_until_unix_s(const Credentials& credentials) {
  try {
    return std::min(describe_certificate(credentials.certificate).not_after_unix_s,
                    describe_certificate(credentials.ca_certificate).not_after_unix_s);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

namespace {

using NumberPtr = std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>>;

std::filesystem::path issued_file(const std::filesystem::path& directory) {
  return directory / "ca.issued";
}

// Empty if there is no such file. One that cannot be read is not taken for an empty one, which
// would be replaced.
std::string read_issued(const std::filesystem::path& directory) {
  const std::filesystem::path path = issued_file(directory);
  if (!std::filesystem::exists(path)) return {};
  const File file(path, O_RDONLY);
  std::string lines(std::filesystem::file_size(path), ' ');
  lines.resize(file.read_at(0, std::as_writable_bytes(std::span(lines))));
  return lines;
}

std::string serial_text(const X509* certificate) {
  const NumberPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const std::unique_ptr<char, decltype([](char* text) { OPENSSL_free(text); })> text(
      BN_bn2hex(number.get()));
  if (!text) throw_bad_credentials("cannot read a certificate's serial number");
  return text.get();
}

// Null if it is none.
SerialPtr parse_serial(const std::string& text) {
  BIGNUM* parsed = nullptr;
  const int digits = text.starts_with('-') ? 0 : BN_hex2bn(&parsed, text.c_str());
  const NumberPtr number(parsed);
  const bool all = digits > 0 && static_cast<std::size_t>(digits) == text.size();
  return SerialPtr(all ? BN_to_ASN1_INTEGER(number.get(), nullptr) : nullptr);
}

}  // namespace

std::vector<SerialPtr> issued_to(const std::filesystem::path& directory, const std::string& name) {
  std::vector<SerialPtr> serials;
  std::istringstream file(read_issued(directory));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string owner, text;
    words >> owner >> text;
    SerialPtr serial = parse_serial(text);
    if (!serial) {
      throw std::system_error(Errc::bad_credentials,
                              issued_file(directory).string() + ": \"" + line +
                                  "\" is not NAME SERIAL; take out what is damaged, or bring the "
                                  "file back from a copy");
    }
    if (owner == name) serials.push_back(std::move(serial));
  }
  return serials;
}

void remember_issued(const std::filesystem::path& directory, const std::string& name,
                     const X509* certificate) {
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(certificate);
  const auto known = issued_to(directory, name);
  if (std::any_of(known.begin(), known.end(),
                  [&](const SerialPtr& one) { return ASN1_INTEGER_cmp(one.get(), serial) == 0; })) {
    return;
  }
  std::string lines = read_issued(directory);
  if (!lines.empty() && !lines.ends_with('\n')) lines += '\n';  // somebody edited it
  lines += name + " " + serial_text(certificate) + "\n";
  AtomicFile file(issued_file(directory));
  file.append(std::as_bytes(std::span(lines)));
  file.commit(Durability::on_disk);
}

}  // namespace causeway::inter
