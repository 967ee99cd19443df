#include "inter/tls/pki.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <spdlog/spdlog.h>

#include "inter/base/atomic_file.h"
#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/openssl.h"
#include "inter/base/region_name.h"
#include "inter/tls/certificate.h"

namespace causeway::inter {
namespace {

using std::filesystem::path;

constexpr std::chrono::seconds kClockSkew{
    300};  // of the hosts that will check the CA's certificate

// No region can have a name with a dot.
constexpr std::string_view kObserverSuffix = ".observer", kFollowerSuffix = ".follower";

// Programs that change a directory take turns: each reads ca.issued or ca.crl, and writes it anew.
std::unique_ptr<File> take_turn(const path& directory) {
  auto turn = std::make_unique<File>(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!turn->lock()) {
    spdlog::info("{}: waits while another program holds its lock", directory.string());
    turn->wait_for_lock();
  }
  return turn;
}

struct Issuer {
  std::unique_ptr<File> turn;
  CertificatePtr certificate;
  KeyPtr key;
};

[[noreturn]] void openssl_failed(const std::string& operation) {
  throw std::system_error(std::make_error_code(std::errc::io_error),
                          operation + ": " + take_openssl_error());
}

void check(bool succeeded, const char* operation) {
  if (!succeeded) openssl_failed(operation);
}

void refuse_overwrite(const path& file) {
  if (std::filesystem::exists(file)) {
    throw std::system_error(
        Errc::already_exists,
        file.string() + " already exists; delete it first if you want to replace it");
  }
}

// What is left of an attempt that failed would be in the way of the next one.
void remove_if_it_throws(const path& file, const std::function<void()>& act) {
  try {
    act();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
    throw;
  }
}

// Until `pem` changes.
std::span<const std::byte> content_of(BIO* pem) {
  char* data = nullptr;
  const auto size = static_cast<std::size_t>(BIO_get_mem_data(pem, &data));
  return std::as_bytes(std::span(data, size));
}

void write_pem(const path& file, BIO* pem, unsigned mode) {
  File out(file, O_WRONLY | O_CREAT | O_EXCL, mode);
  remove_if_it_throws(file, [&] {
    out.write_at(0, content_of(pem));
    out.sync();
  });
}

void write_key(const path& file, EVP_PKEY* key) {
  const BioPtr pem(BIO_new(BIO_s_secmem()));
  check(pem && PEM_write_bio_PrivateKey(pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "cannot encode a private key");
  write_pem(file, pem.get(), 0600);
}

BioPtr encode_pem(X509* certificate) {
  BioPtr pem(BIO_new(BIO_s_mem()));
  check(pem && PEM_write_bio_X509(pem.get(), certificate) == 1, "cannot encode a certificate");
  return pem;
}

void write_certificate(const path& file, X509* certificate) {
  write_pem(file, encode_pem(certificate).get(), 0644);
}

// Both or neither.
void write_pair(const Credentials& files, EVP_PKEY* key, X509* certificate) {
  write_key(files.key, key);
  remove_if_it_throws(files.key, [&] { write_certificate(files.certificate, certificate); });
}

// Whoever reads the file meanwhile sees the old content or the new.
void replace_pem(const path& file, BIO* pem) {
  AtomicFile out(file);
  out.append(content_of(pem));
  out.commit(Durability::on_disk);
}

KeyPtr make_key() {
  KeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  check(key != nullptr, "cannot make an Ed25519 key");
  return key;
}

void set_random_serial(X509* certificate) {
  unsigned char bytes[16];
  check(RAND_bytes(bytes, sizeof bytes) == 1, "no randomness for a serial number");
  bytes[0] &= 0x7f;  // positive
  const std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>> number(
      BN_bin2bn(bytes, sizeof bytes, nullptr));
  check(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr,
        "cannot set a serial number");
}

void set_validity(X509* certificate, std::chrono::seconds starts_in, std::chrono::days validity) {
  const auto ends_in = starts_in + std::chrono::seconds(validity);
  check(X509_gmtime_adj(X509_getm_notBefore(certificate), starts_in.count()) != nullptr &&
            X509_gmtime_adj(X509_getm_notAfter(certificate), ends_in.count()) != nullptr,
        "cannot set a certificate's dates");
}

void set_common_name(X509_NAME* name, const std::string& text) {
  check(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1,
                                   0) == 1,
        "cannot set a certificate's name (at most 64 characters)");
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, OpensslDeleter<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1,
        "cannot add a certificate extension");
}

// What a CA's and a region's certificate have in common; unsigned.
CertificatePtr make_certificate(const std::string& name, EVP_PKEY* key, X509* issuer,
                                std::chrono::seconds starts_in, std::chrono::days validity) {
  CertificatePtr certificate(X509_new());
  check(certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
            X509_set_pubkey(certificate.get(), key) == 1,
        "cannot make a certificate");
  set_random_serial(certificate.get());
  set_validity(certificate.get(), starts_in, validity);
  set_common_name(X509_get_subject_name(certificate.get()), name);
  X509* signer = issuer == nullptr ? certificate.get() : issuer;
  check(X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer)) == 1,
        "cannot set a certificate's issuer");
  add_extension(certificate.get(), signer, NID_subject_key_identifier, "hash");
  add_extension(certificate.get(), signer, NID_authority_key_identifier, "keyid:always");
  return certificate;
}

void sign(X509* certificate, EVP_PKEY* key) {
  // Ed25519 brings its own digest.
  check(X509_sign(certificate, key, nullptr) > 0, "cannot sign a certificate");
}

KeyPtr load_key(const path& file) {
  const BioPtr pem(BIO_new_file(file.c_str(), "r"));
  KeyPtr key(pem ? PEM_read_bio_PrivateKey(pem.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!key) throw_bad_credentials("cannot read the private key " + file.string());
  return key;
}

// Only a warning: a medium without permissions, as many a stick on which ca.key lies, shows every
// file as open, and a region must still be revoked.
void warn_of_open_key(const path& key) {
  const std::string problem = open_key_problem(key);
  if (!problem.empty()) spdlog::warn("{}: whoever has it can issue certificates", problem);
}

Issuer load_issuer(const path& directory) {
  const path key_file = directory / "ca.key";
  if (!std::filesystem::exists(directory / "ca.crt") || !std::filesystem::exists(key_file)) {
    throw std::system_error(Errc::no_ca, "no ca.crt and ca.key in " + directory.string() +
                                             "; run `causeway certs init` first");
  }
  Issuer issuer;
  issuer.turn = take_turn(directory);
  issuer.certificate = load_certificate(directory / "ca.crt");
  issuer.key = load_key(key_file);
  warn_of_open_key(key_file);
  check(X509_check_private_key(issuer.certificate.get(), issuer.key.get()) == 1,
        "ca.key does not belong to ca.crt");
  return issuer;
}

CertificatePtr issue(const Issuer& issuer, const std::string& region, EVP_PKEY* key,
                     std::chrono::seconds starts_in, std::chrono::days validity) {
  X509* ca = issuer.certificate.get();
  CertificatePtr owned = make_certificate(region, key, ca, starts_in, validity);
  X509* certificate = owned.get();
  add_extension(certificate, ca, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate, ca, NID_key_usage, "critical,digitalSignature");
  add_extension(certificate, ca, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(certificate, ca, NID_subject_alt_name, "DNS:" + region);
  sign(certificate, issuer.key.get());
  return owned;
}

// `certified` may say more than `name`, which the files and ca.issued have.
void issue_new(const path& directory, const std::string& name, const std::string& certified,
               std::chrono::seconds starts_in, std::chrono::days validity) {
  const Issuer issuer = load_issuer(directory);
  const Credentials files = credentials_in(directory, name);
  refuse_overwrite(files.key);
  refuse_overwrite(files.certificate);
  const KeyPtr key = make_key();
  const CertificatePtr certificate = issue(issuer, certified, key.get(), starts_in, validity);
  remember_issued(directory, name, certificate.get());
  write_pair(files, key.get(), certificate.get());
}

// What the certificate that is there is for: an observer's name, or a follower's, is not that of
// its file.
std::string present_name(const Credentials& files, const std::string& name) {
  const auto names = dns_names(load_certificate(files.certificate).get());
  for (const std::string_view suffix : {kObserverSuffix, kFollowerSuffix}) {
    const std::string certified = name + std::string(suffix);
    if (names == std::vector{certified}) return certified;
  }
  return name;
}

// The certificate that is there may be older than ca.issued.
void remember_present(const path& directory, const std::string& name) {
  const path file = credentials_in(directory, name).certificate;
  remember_issued(directory, name, load_certificate(file).get());
}

// Valid as long as the CA is: there is nobody who would fetch a new one every week.
CrlPtr make_revocations(const Issuer& issuer) {
  const X509* ca = issuer.certificate.get();
  CrlPtr list(X509_CRL_new());
  check(list && X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1 &&
            X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(ca)) == 1 &&
            X509_CRL_set1_lastUpdate(list.get(), X509_get0_notBefore(ca)) == 1 &&
            X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(ca)) == 1,
        "cannot make a revocation list");
  return list;
}

void append(X509_CRL* list, ASN1_INTEGER* serial) {
  std::unique_ptr<X509_REVOKED, OpensslDeleter<X509_REVOKED_free>> entry(X509_REVOKED_new());
  const std::unique_ptr<ASN1_TIME, OpensslDeleter<ASN1_TIME_free>> now(X509_gmtime_adj(nullptr, 0));
  check(entry && now && X509_REVOKED_set_serialNumber(entry.get(), serial) == 1 &&
            X509_REVOKED_set_revocationDate(entry.get(), now.get()) == 1 &&
            X509_CRL_add0_revoked(list, entry.get()) == 1,
        "cannot extend the revocation list");
  static_cast<void>(entry.release());  // the list owns it now
}

void write_revocations(const path& file, X509_CRL* list, const Issuer& issuer) {
  check(X509_CRL_sort(list) == 1 && X509_CRL_sign(list, issuer.key.get(), nullptr) > 0,
        "cannot sign the revocation list");
  const BioPtr pem(BIO_new(BIO_s_mem()));
  check(pem && PEM_write_bio_X509_CRL(pem.get(), list) == 1, "cannot encode the revocation list");
  replace_pem(file, pem.get());
}

}  // namespace

void check_region_name(const std::string& region) {
  if (can_name_region(region)) return;
  throw std::system_error(
      Errc::bad_name,
      region == kAuthorityName
          ? "\"ca\" is the name of the authority's own files; give another name"
          : "\"" + region + "\" cannot name a region; use 1 to 63 of a-z, 0-9 and -");
}

std::string open_key_problem(const path& key) {
  using std::filesystem::perms;
  std::error_code missing;  // is somebody else's to say
  const perms granted = std::filesystem::status(key, missing).permissions();
  if (missing || (granted & (perms::group_all | perms::others_all)) == perms::none) return "";
  return "the private key " + key.string() + " is open to other users of this host; `chmod 600 " +
         key.string() +
         "` (of a copy, where it is mounted read-only, as a Secret of Kubernetes), and replace the "
         "key if others may have read it";
}

Credentials credentials_in(const path& directory, const std::string& region) {
  return {directory / "ca.crt", directory / (region + ".crt"), directory / (region + ".key"),
          directory / "ca.crl"};
}

void create_ca(const path& directory, const std::string& run_name, std::chrono::days validity) {
  create_private_directories(directory);
  const std::unique_ptr<File> turn = take_turn(directory);
  refuse_overwrite(directory / "ca.key");
  refuse_overwrite(directory / "ca.crt");
  const KeyPtr key = make_key();
  const CertificatePtr certificate =
      make_certificate(run_name + " CA", key.get(), nullptr, -kClockSkew, validity);
  X509* ca = certificate.get();
  add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign");
  sign(ca, key.get());
  write_pair(credentials_in(directory, std::string(kAuthorityName)), key.get(), ca);
}

void add_region(const path& directory, const std::string& region, std::chrono::days validity,
                std::chrono::seconds starts_in) {
  check_region_name(region);
  issue_new(directory, region, region, starts_in, validity);
}

namespace {

// For somebody who is no region, called `who` in messages.
void add_reader(const path& directory, const std::string& name, std::string_view suffix,
                const std::string& who, std::chrono::days validity) {
  const std::size_t name_max = 63 - suffix.size();
  check_region_name(name);
  if (name.size() > name_max) {
    throw std::system_error(Errc::bad_name, "\"" + name + "\": " + who + "'s name has at most " +
                                                std::to_string(name_max) + " characters");
  }
  issue_new(directory, name, name + std::string(suffix), -kClockSkew, validity);
}

}  // namespace

void add_observer(const path& directory, const std::string& name, std::chrono::days validity) {
  add_reader(directory, name, kObserverSuffix, "an observer", validity);
}

bool is_observer(const std::string& certified_name) {
  return certified_name.ends_with(kObserverSuffix);
}

void add_follower(const path& directory, const std::string& name, std::chrono::days validity) {
  add_reader(directory, name, kFollowerSuffix, "a follower", validity);
}

bool is_follower(const std::string& certified_name) {
  return certified_name.ends_with(kFollowerSuffix);
}

void renew_region(const path& directory, const std::string& region, std::chrono::days validity) {
  check_region_name(region);
  const Issuer issuer = load_issuer(directory);
  const Credentials files = credentials_in(directory, region);
  const KeyPtr key = load_key(files.key);
  remember_present(directory, region);
  const std::string name = present_name(files, region);
  const CertificatePtr certificate = issue(issuer, name, key.get(), -kClockSkew, validity);
  remember_issued(directory, region, certificate.get());
  replace_pem(files.certificate, encode_pem(certificate.get()).get());
}

bool revoke_region(const path& directory, const std::string& region) {
  check_region_name(region);
  const Issuer issuer = load_issuer(directory);
  const path certificate = credentials_in(directory, region).certificate;
  if (std::filesystem::exists(certificate)) remember_present(directory, region);
  const auto issued = issued_to(directory, region);
  if (issued.empty()) {
    throw std::system_error(Errc::bad_credentials,
                            "no certificate of " + region + " is known: there is no " +
                                certificate.string() + ", and " +
                                (directory / "ca.issued").string() + " has no line for it");
  }
  const path file = credentials_in(directory, region).revocations;
  CrlPtr list = load_revocations(file);
  if (!list) list = make_revocations(issuer);
  bool added = false;
  for (const SerialPtr& serial : issued) {
    if (!lists(list.get(), serial.get())) {
      append(list.get(), serial.get());
      added = true;
    }
  }
  if (added) write_revocations(file, list.get(), issuer);
  return added;
}

bool is_revoked(const path& directory, const path& certificate) {
  return lists(load_revocations(directory / "ca.crl").get(),
               X509_get0_serialNumber(load_certificate(certificate).get()));
}

}  // namespace causeway::inter
