// causeway certs: the run's private certificate authority.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "inter/tls/pki.h"

namespace causeway::apps {
namespace {

struct CertsFlags {
  std::filesystem::path directory = "certificates";
  std::string run_name = "causeway";
  std::vector<std::string> regions;
  int days = 365;
};

std::string validity(const inter::CertificateInfo& info) {
  return info.days_left < 0 ? "EXPIRED" : fmt::format("{} days left", info.days_left);
}

void show(const std::filesystem::path& file) {
  const inter::CertificateInfo info = inter::describe_certificate(file);
  std::cout << file.string() << "\n  subject      " << info.subject << "\n  issuer       "
            << info.issuer << "\n  valid        " << info.not_before << " to " << info.not_after
            << " (" << validity(info) << ")\n  SHA-256      " << info.sha256_fingerprint << "\n";
  for (const std::string& name : info.dns_names) std::cout << "  region       " << name << "\n";
  if (inter::is_revoked(file.parent_path(), file)) std::cout << "  REVOKED\n";
}

void show_all(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".crt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) show(file);
}

void issue(const CertsFlags& flags) {
  for (const std::string& region : flags.regions) {
    inter::add_region(flags.directory, region, std::chrono::days{flags.days});
    const inter::Credentials made = inter::credentials_in(flags.directory, region);
    std::cout << "Wrote " << made.certificate.string() << " and " << made.key.string() << ".\n"
              << "Region " << region << " needs these two and " << made.ca_certificate.string()
              << "; ca.key stays here.\n";
  }
}

void issue_observers(const CertsFlags& flags) {
  for (const std::string& name : flags.regions) {
    inter::add_observer(flags.directory, name, std::chrono::days{flags.days});
    const inter::Credentials made = inter::credentials_in(flags.directory, name);
    std::cout << "Wrote " << made.certificate.string() << " and " << made.key.string()
              << ". Whoever has these two and " << made.ca_certificate.string()
              << " can ask any region of the run for its status, and do nothing else.\n";
  }
}

void issue_followers(const CertsFlags& flags) {
  for (const std::string& name : flags.regions) {
    inter::add_follower(flags.directory, name, std::chrono::days{flags.days});
    const inter::Credentials made = inter::credentials_in(flags.directory, name);
    std::cout << "Wrote " << made.certificate.string() << " and " << made.key.string()
              << ". Whoever has these two and " << made.ca_certificate.string()
              << " can read the run's records and weights (`causeway follow`), and do nothing "
                 "else.\n";
  }
}

void renew(const CertsFlags& flags) {
  for (const std::string& region : flags.regions) {
    inter::renew_region(flags.directory, region, std::chrono::days{flags.days});
    std::cout << "Wrote " << inter::credentials_in(flags.directory, region).certificate.string()
              << ". Copy it to the region; a running coordinator there takes it up.\n";
  }
}

void revoke(const CertsFlags& flags) {
  for (const std::string& region : flags.regions) {
    const bool added = inter::revoke_region(flags.directory, region);
    std::cout << region << (added ? " is revoked." : " was revoked before.") << " Copy "
              << inter::credentials_in(flags.directory, region).revocations.string()
              << " to every region; running coordinators take it up.\n";
  }
}

}  // namespace

void add_certs(CLI::App& app, int&) {
  auto flags = std::make_shared<CertsFlags>();
  CLI::App* certs = app.add_subcommand(
      "certs", "Make the certificates by which coordinators authenticate each other");
  certs->require_subcommand(1);
  certs->add_option("--directory", flags->directory, "Directory of the certificates")
      ->capture_default_str();
  certs->fallthrough();

  CLI::App* init = certs->add_subcommand("init", "Create the certificate authority");
  init->add_option("--name", flags->run_name, "Name of the authority")->capture_default_str();
  init->callback([flags] {
    inter::create_ca(flags->directory, flags->run_name);
    std::cout << "Wrote " << (flags->directory / "ca.crt").string() << " and "
              << (flags->directory / "ca.key").string() << ". Keep ca.key private.\n";
  });

  CLI::App* add = certs->add_subcommand("add-region", "Issue a region's certificate and key");
  add->add_option("REGION", flags->regions, "Region names")->required();
  add->add_option("--days", flags->days, "Days of validity")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  add->callback([flags] { issue(*flags); });

  CLI::App* observer = certs->add_subcommand(
      "add-observer", "Issue a certificate for looking at a run: `causeway status HOST:PORT`");
  observer->add_option("NAME", flags->regions, "Names")->required();
  observer->add_option("--days", flags->days, "Days of validity")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  observer->callback([flags] { issue_observers(*flags); });

  CLI::App* follower = certs->add_subcommand(
      "add-follower", "Issue a certificate for reading a run's weights: `causeway follow`");
  follower->add_option("NAME", flags->regions, "Names")->required();
  follower->add_option("--days", flags->days, "Days of validity")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  follower->callback([flags] { issue_followers(*flags); });

  CLI::App* renewal = certs->add_subcommand("renew", "Issue a new certificate for a region's key");
  renewal->add_option("REGION", flags->regions, "Region names")->required();
  renewal->add_option("--days", flags->days, "Days of validity")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  renewal->callback([flags] { renew(*flags); });

  CLI::App* revocation =
      certs->add_subcommand("revoke", "Put a region's certificate on the revocation list");
  revocation->add_option("REGION", flags->regions, "Region names")->required();
  revocation->callback([flags] { revoke(*flags); });

  CLI::App* list = certs->add_subcommand("show", "Describe the certificates");
  list->callback([flags] { show_all(flags->directory); });
}

}  // namespace causeway::apps
