// When the certificates that a coordinator works with run out. Links that are up stay, so nothing
// shows it before the next one is to be made.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inter/tls/pki.h"

namespace causeway::run {

struct CertificateEnd {
  std::string certificate;  // "own" or "authority"
  std::filesystem::path file;
  std::string at_utc;  // ISO 8601
  double at_unix_s = 0;
};

// As the files are now; without those that cannot be read, perhaps because they are being replaced.
std::vector<CertificateEnd> certificate_ends(const inter::Credentials& credentials);

// Of what ends then; none: there is time.
std::optional<double> few_days_left(double at_unix_s, double now_unix_s);

// What to say of it, and what to do; empty: there is time.
std::string expiry_warning(const CertificateEnd& end, const std::string& region, double now_unix_s);

}  // namespace causeway::run
