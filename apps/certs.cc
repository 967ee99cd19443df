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

// What is done for each name that is given.
struct ForNames {
  const char *command, *meaning, *placeholder, *names;
  bool with_days;  // a certificate is made
  void (*act)(const CertsFlags&);
};
constexpr ForNames kForNames[] = {
    {"add-region", "Issue a region's certificate and key", "REGION", "Region names", true, issue},
    {"add-observer", "Issue a certificate for looking at a run: `causeway status HOST:PORT`",
     "NAME", "Names", true, issue_observers},
    {"add-follower", "Issue a certificate for reading a run's weights: `causeway follow`", "NAME",
     "Names", true, issue_followers},
    {"renew", "Issue a new certificate for a region's key", "REGION", "Region names", true, renew},
    {"revoke", "Put a region's certificate on the revocation list", "REGION", "Region names", false,
     revoke},
};

void add_for_names(CLI::App& certs, const std::shared_ptr<CertsFlags>& flags) {
  for (const ForNames& one : kForNames) {
    CLI::App* command = certs.add_subcommand(one.command, one.meaning);
    command->add_option(one.placeholder, flags->regions, one.names)->required();
    if (one.with_days)
      command->add_option("--days", flags->days, "Days of validity")
          ->check(CLI::Range(1, 3650))
          ->capture_default_str();
    command->callback([flags, act = one.act] { act(*flags); });
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
  init->add_option("--name", flags->run_name, "Name of the authority")
      ->capture_default_str()
      ->check([](const std::string& name) {
        const bool fits = !name.empty() && name.size() <= inter::kCaNameMax;
        return fits ? "" : fmt::format("must have 1 to {} bytes", inter::kCaNameMax);
      });
  init->callback([flags] {
    inter::create_ca(flags->directory, flags->run_name);
    std::cout << "Wrote " << (flags->directory / "ca.crt").string() << " and "
              << (flags->directory / "ca.key").string() << ". Keep ca.key private.\n";
  });
  add_for_names(*certs, flags);
  CLI::App* list = certs->add_subcommand("show", "Describe the certificates");
  list->callback([flags] { show_all(flags->directory); });
}

}  // namespace causeway::apps
