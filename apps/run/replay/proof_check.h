// Whether regions trained as their records say: of contributions that are drawn when their records
// can no longer change, the inner steps are taken again and compared, hash by hash
// (docs/audit.md, "Proof that a region trained").
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace causeway::run {

struct ProofCheckOptions {
  std::vector<std::filesystem::path> paths;  // as ReplayOptions has them
  std::filesystem::path certificates;
  std::vector<std::string> overrides;  // of the configuration that was kept
  double sample = 0.1;                 // above 0 to 1: so many of the contributions are drawn
};

struct ProofCheck {
  std::vector<std::string> lines;  // what was found, for people
  std::size_t same = 0, differ = 0, unchecked = 0;

  bool right() const { return differ == 0 && (same > 0 || unchecked == 0); }
};

// Throws as replay() does, and ConfigError if the run proves nothing.
ProofCheck check_proofs(const ProofCheckOptions& options);

}  // namespace causeway::run
