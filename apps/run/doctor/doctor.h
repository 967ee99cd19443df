// `causeway doctor`: everything that a region needs, looked at before it trains.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/config/link_flags.h"
#include "apps/run/doctor/checks.h"

namespace causeway::run {

struct DoctorOptions {
  LinkFlags links;
  std::filesystem::path directory;   // the region's
  std::string program;               // its version
  std::string python;                // interpreter of a program of the user's that trains
  bool whole_data = false;           // read all of it, however much it is
  std::chrono::milliseconds wait{};  // for the doctors of the other regions
};

struct Diagnosis {
  double time_unix_s = 0;
  std::string settings_digest;  // of the settings that all regions share
  Findings findings;
  bool failed() const;
};

// Blocks, for less than a minute with a wait of 30 seconds. Throws ConfigError of what a command
// line names.
Diagnosis diagnose(const Config& config, const DoctorOptions& options);

std::string to_text(const Diagnosis& diagnosis);
std::string to_json(const Diagnosis& diagnosis);

// doctor.json in the region's directory, for require_doctor().
void keep(const Diagnosis& diagnosis, const std::filesystem::path& directory);
// Throws ConfigError, with what to do, unless a doctor found nothing that fails there, with these
// settings, within the last day.
void require_doctor(const Config& config, const std::string& region,
                    const std::filesystem::path& directory);

}  // namespace causeway::run
