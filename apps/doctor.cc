// causeway doctor: whether a region can take part, before it does.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <spdlog/spdlog.h>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/config/link_flags.h"
#include "apps/run/doctor/doctor.h"
#include "apps/run/region/run_directory.h"

namespace causeway::apps {
namespace {

constexpr int kSomethingFailed = 3;

struct DoctorFlags : run::LinkFlags {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path directory;
  std::string python = "python3";
  bool whole_data = false;
  double wait_s = 30;
  bool json = false;
};

run::Diagnosis look(const DoctorFlags& flags, const run::Config& config) {
  const auto directory = run::region_path(config, flags.region, flags.directory);
  std::cerr << "Looks at this host, and waits up to " << flags.wait_s
            << " s for the other regions: run `causeway doctor` there now\n";
  run::Diagnosis diagnosis =
      run::diagnose(config, {.links = flags,
                             .directory = directory,
                             .program = CAUSEWAY_VERSION,
                             .python = flags.python,
                             .whole_data = flags.whole_data,
                             .wait = std::chrono::milliseconds(std::llround(1e3 * flags.wait_s))});
  try {
    if (std::filesystem::is_directory(directory)) run::keep(diagnosis, directory);
  } catch (const std::system_error& error) {
    diagnosis.findings.push_back(
        run::fail("doctor.json", error.what(), "make room for files in the region's directory"));
  }
  return diagnosis;
}

// A file that cannot be used is a finding too.
run::Diagnosis diagnosis_of(const DoctorFlags& flags) {
  run::Config config;
  try {
    config = run::load_config(flags.config, flags.overrides);
  } catch (const run::ConfigError& error) {
    run::Diagnosis diagnosis;
    diagnosis.findings = {run::fail("configuration", error.what(), "correct the file")};
    return diagnosis;
  }
  run::region_in(config, flags.region);
  return look(flags, config);
}

int run_doctor(const DoctorFlags& flags) {
  spdlog::set_level(spdlog::level::off);  // what links say is told as findings
  const run::Diagnosis diagnosis = diagnosis_of(flags);
  std::cout << (flags.json ? to_json(diagnosis) : to_text(diagnosis));
  return diagnosis.failed() ? kSomethingFailed : 0;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Check a region's host, disk, data, certificates and links before it trains");
  command->add_option("CONFIG", flags->config, "The run's configuration file")->required();
  add_set_option(*command, flags->overrides);
  command->add_option("--region", flags->region, "This region's name")->required();
  command->add_option("--directory", flags->directory,
                      "Where this region keeps its state (default: runs/NAME/REGION)");
  command->add_option("--certificates", flags->certificates,
                      "Directory made by `causeway certs` (default: certificates.directory)");
  command->add_option("--listen", flags->listen, "HOST:PORT to bind instead of the configured one");
  add_repeated(*command, "--peer", flags->peers,
               "NAME=HOST:PORT to dial instead of the advertised one");
  command->add_option("--python", flags->python, "Interpreter of your program, if it is in Python")
      ->capture_default_str();
  command->add_flag("--whole-data", flags->whole_data,
                    "Read all data for its digest, even if it is more than data.digest_gib");
  command->add_option("--wait", flags->wait_s, "Seconds to wait for the doctors of other regions")
      ->check(number_from(0, 600))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print JSON");
  command->footer(
      "Run it in all regions at the same time, before their coordinators. It writes its findings\n"
      "to doctor.json in the region's directory, and changes nothing else. Exit code 3: something\n"
      "failed.");
  command->callback([flags, &exit_code] { exit_code = run_doctor(*flags); });
}

}  // namespace causeway::apps
