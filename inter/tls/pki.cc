#include "inter/tls/pki.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>

#include <openssl/pem.h>

#include <spdlog/spdlog.h>

#include "inter/base/atomic_file.h"
#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/openssl.h"
#include "inter/base/region_name.h"
#include "inter/tls/certificate.h"
#include "inter/tls/make_certificate.h"

namespace causeway::inter {
namespace {

using std::filesystem::path;

// Of the hosts that will check the CA's certificate.
constexpr std::chrono::seconds kClockSkew{300};

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

  CertificatePtr issue(const std::string& name, EVP_PKEY* owner,
                       const CertificateDates& dates) const {
    return make_certificate(name, owner, certificate.get(), key.get(), dates);
  }
};

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

// Both or neither.
void write_pair(const Credentials& files, EVP_PKEY* key, X509* certificate) {
  write_pem(files.key, pem_of(key).get(), 0600);
  remove_if_it_throws(files.key,
                      [&] { write_pem(files.certificate, pem_of(certificate).get(), 0644); });
}

// Whoever reads the file meanwhile sees the old content or the new.
void replace_pem(const path& file, BIO* pem) {
  AtomicFile out(file);
  out.append(content_of(pem));
  out.commit(Durability::on_disk);
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
  check_openssl(X509_check_private_key(issuer.certificate.get(), issuer.key.get()) == 1,
                "ca.key does not belong to ca.crt");
  return issuer;
}

// `certified` may say more than `name`, which the files and ca.issued have.
void issue_new(const path& directory, const std::string& name, const std::string& certified,
               std::chrono::seconds starts_in, std::chrono::days validity) {
  const Issuer issuer = load_issuer(directory);
  const Credentials files = credentials_in(directory, name);
  refuse_overwrite(files.key);
  refuse_overwrite(files.certificate);
  const KeyPtr key = make_key();
  const CertificatePtr certificate = issuer.issue(certified, key.get(), {starts_in, validity});
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
      make_ca_certificate(run_name + " CA", key.get(), {-kClockSkew, validity});
  write_pair(credentials_in(directory, std::string(kAuthorityName)), key.get(), certificate.get());
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
  const CertificatePtr certificate = issuer.issue(name, key.get(), {-kClockSkew, validity});
  remember_issued(directory, region, certificate.get());
  replace_pem(files.certificate, pem_of(certificate.get()).get());
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
  if (!list) list = make_revocations(issuer.certificate.get());
  bool added = false;
  for (const SerialPtr& serial : issued) {
    if (!lists(list.get(), serial.get())) {
      add_revoked(list.get(), serial.get());
      added = true;
    }
  }
  if (added) {
    sign_revocations(list.get(), issuer.key.get());
    replace_pem(file, pem_of(list.get()).get());
  }
  return added;
}

bool is_revoked(const path& directory, const path& certificate) {
  return lists(load_revocations(directory / "ca.crl").get(),
               X509_get0_serialNumber(load_certificate(certificate).get()));
}

}  // namespace causeway::inter
