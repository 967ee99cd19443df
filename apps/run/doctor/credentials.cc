#include "apps/run/doctor/credentials.h"

#include <ctime>
#include <exception>

#include <spdlog/fmt/chrono.h>

#include "inter/tls/pki.h"
#include "inter/tls/tls.h"

namespace causeway::run {
namespace {

constexpr int kSoonDays = 30;

Finding judge_validity(const std::string& subject, const std::filesystem::path& file,
                       const std::string& advice) {
  const inter::CertificateInfo info = inter::describe_certificate(file);
  const std::string text = file.string() + ": valid from " + info.not_before + " to " +
                           info.not_after + ", " + std::to_string(info.days_left) + " days left";
  return info.days_left < kSoonDays ? warn(subject, text, advice) : ok(subject, text);
}

}  // namespace

Findings check_credentials(const std::filesystem::path& certificates, const std::string& region) {
  const inter::Credentials files = inter::credentials_in(certificates, region);
  try {
    inter::make_tls_context(files, inter::TlsRole::server);
    inter::check_own_certificate(files, region, inter::Validity::required);
    return {judge_validity("certificate", files.certificate,
                           "renew it: `causeway certs renew " + region + "` where ca.key is"),
            judge_validity("authority", files.ca_certificate,
                           "make a new authority and new certificates for all regions")};
  } catch (const std::exception& error) {
    return {fail("certificate", error.what(),
                 "`causeway certs add-region` or `renew` where ca.key is; copy NAME.crt, NAME.key "
                 "and ca.crt here. This host's clock says " +
                     fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))))};
  }
}

}  // namespace causeway::run
