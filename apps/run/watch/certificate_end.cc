#include "apps/run/watch/certificate_end.h"

#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace causeway::run {
namespace {

constexpr double kSecondsADay = 86'400;
constexpr double kWarnDays = 30;  // as the doctor does

}  // namespace

std::vector<CertificateEnd> certificate_ends(const inter::Credentials& credentials) {
  std::vector<CertificateEnd> ends;
  for (const auto& [name, file] : {std::pair{"own", credentials.certificate},
                                   std::pair{"authority", credentials.ca_certificate}}) {
    if (file.empty()) continue;
    try {
      const inter::CertificateInfo info = inter::describe_certificate(file);
      ends.push_back({name, file, info.not_after, info.not_after_unix_s});
    } catch (const std::system_error&) {
      continue;
    }
  }
  return ends;
}

std::optional<double> few_days_left(double at_unix_s, double now_unix_s) {
  const double days = (at_unix_s - now_unix_s) / kSecondsADay;
  return days < kWarnDays ? std::optional(days) : std::nullopt;
}

std::string expiry_warning(const CertificateEnd& end, const std::string& region,
                           double now_unix_s) {
  const std::optional<double> days = few_days_left(end.at_unix_s, now_unix_s);
  if (!days) return {};
  const std::string when = *days < 0 ? "ran out at " + end.at_utc
                                     : fmt::format("runs out at {}, {:.0f} days are left",
                                                   end.at_utc, std::floor(*days));
  const std::string what =
      end.certificate == "own"
          ? fmt::format(
                "Renew it: `causeway certs renew {}` where ca.key is, and put {}.crt here; "
                "running coordinators take it up",
                region, region)
          : std::string(
                "Stop the run, make a new authority and new certificates for all regions, "
                "and start the run again with them");
  return fmt::format("{} {}: after that no link can be made any more. {}", end.file.string(), when,
                     what);
}

}  // namespace causeway::run
