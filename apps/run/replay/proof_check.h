// Whether regions trained as their records say: of contributions that are drawn when their records
// can no longer change, the inner steps are taken again and compared, hash by hash
// (docs/proofs.md).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace causeway::run {

struct ProofCheckOptions {
  std::vector<std::filesystem::path> paths;  // as ReplayOptions has them
  std::filesystem::path certificates;
  std::filesystem::path config;        // the run's; empty: what two regions or more kept alike
  std::vector<std::string> overrides;  // of the configuration
  double sample = 0.1;                 // above 0 to 1: so many of the contributions are drawn
  std::string seed;                    // of the draw: the auditor's own; empty: a random one
  std::function<void(const std::string&)> say;  // gets each line as it is found, for people
};

struct ProofCheck {
  std::size_t differ = 0;              // findings against a region
  std::vector<std::string> unchecked;  // regions that contributed and of which nothing was checked
  bool checked = false;                // anything was

  bool right() const { return differ == 0 && checked && unchecked.empty(); }
};

// What concerns one region alone ends the check of that contribution, and no other. Throws as
// replay() does, and ConfigError if the run proves nothing, trains a model of a program, or its
// configuration is not known (reference_config of proof_rules.h).
ProofCheck check_proofs(const ProofCheckOptions& options);

}  // namespace causeway::run
