// By whose settings a check of proofs takes steps again: the run's, never those that the checked
// region alone names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/run/config/config.h"

namespace causeway::run {

// Of regions, by name.
using RegionDirectories = std::map<std::string, std::filesystem::path>;

// The run's configuration: `file`, if it is given; otherwise what the archives of two regions or
// more say alike in all that regions share. Throws ConfigError if they do not, asking for the file.
Config reference_config(const std::filesystem::path& file, const RegionDirectories& directories,
                        const std::vector<std::string>& overrides);

struct ProofRules {
  Config config;            // shared settings of the reference; its own keys, as its data, are its
  std::string differences;  // between the shared settings; empty: none
};
// Of the region of this directory; one without an archive has all from the reference. Throws
// ConfigError if its archived configuration is none.
ProofRules proof_rules(const Config& reference, const std::filesystem::path& directory,
                       const std::vector<std::string>& overrides);

}  // namespace causeway::run
