// The run's private PKI: one CA, one certificate per region with the region's name bound to it (CN
// and a DNS SAN equal to the name). Ed25519 or P-256 keys; PEM files with mode 0600 for keys.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace causeway::inter {

// Files of one region's credentials.
struct Credentials {
  std::filesystem::path ca_certificate;
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::filesystem::path revocations{};  // the CA's list; need not exist
};

// ca.crt, ca.key, ca.crl, NAME.crt, NAME.key under `directory`; ca.issued, which lists all that the
// CA has issued, stays with ca.key.
Credentials credentials_in(const std::filesystem::path& directory, const std::string& region);

// What is wrong where other users of this host may read or change a private key; empty: nothing.
std::string open_key_problem(const std::filesystem::path& key);

// Of the name that create_ca() takes: a certificate's has 64 characters at most, with " CA".
inline constexpr std::size_t kCaNameMax = 61;

// Creates the CA. Refuses to overwrite an existing one (throws Errc::already_exists).
void create_ca(const std::filesystem::path& directory, const std::string& run_name,
               std::chrono::days validity = std::chrono::days{3650});

// Throws Errc::bad_name if no region can have this name.
void check_region_name(const std::string& region);

// Issues a certificate for `region`. `starts_in` may be negative (tests: expired and not yet valid
// certificates). Throws Errc::bad_name, Errc::already_exists, or Errc::no_ca saying what to run.
void add_region(const std::filesystem::path& directory, const std::string& region,
                std::chrono::days validity = std::chrono::days{365},
                std::chrono::seconds starts_in = std::chrono::seconds{-300});

// Issues a certificate for somebody who may only look (observer.h), in NAME.crt and NAME.key. Its
// name is one that no region can have. Names as for regions, at most 54 characters. Throws as
// add_region.
void add_observer(const std::filesystem::path& directory, const std::string& name,
                  std::chrono::days validity = std::chrono::days{365});
bool is_observer(const std::string& certified_name);
// Likewise for somebody who may fetch the run's records, states and payloads, and nothing else.
void add_follower(const std::filesystem::path& directory, const std::string& name,
                  std::chrono::days validity = std::chrono::days{365});
bool is_follower(const std::string& certified_name);

// A new certificate for a region's key, in place of the old one. Running coordinators take it up.
void renew_region(const std::filesystem::path& directory, const std::string& region,
                  std::chrono::days validity = std::chrono::days{365});

// Puts the region's certificates, those that were renewed since too, on the CA's list, ca.crl,
// which every region needs a copy of. Running coordinators take it up and drop the region's links.
// False if all were on it already.
bool revoke_region(const std::filesystem::path& directory, const std::string& region);

// Whether ca.crl in `directory` lists the certificate.
bool is_revoked(const std::filesystem::path& directory, const std::filesystem::path& certificate);

struct CertificateInfo {
  std::string subject, issuer, not_before, not_after, sha256_fingerprint;
  std::vector<std::string> dns_names;
  int days_left = 0;  // of its validity; negative: expired
  double not_after_unix_s = 0;
};
CertificateInfo describe_certificate(const std::filesystem::path& certificate);

// When the first of the certificate and its authority's runs out. None: a file cannot be read,
// which may be one that is just being replaced.
std::optional<double> valid_until_unix_s(const Credentials& credentials);

}  // namespace causeway::inter
