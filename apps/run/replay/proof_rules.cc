#include "apps/run/replay/proof_rules.h"

#include <optional>
#include <sstream>

#include "apps/run/config/config_schema.h"
#include "diloco/coordinator/greeting.h"
#include "diloco/files/archive.h"

namespace causeway::run {
namespace {

constexpr const char* kGiveFile =
    "give the run's configuration, from somebody you trust, with --config FILE";

// Regions may join and leave; the ledger says who took part.
std::string rules_of(const Config& config) {
  std::istringstream lines(shared_settings(config));
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("regions.name = ")) kept += line + "\n";
  return kept;
}

// Empty: none.
std::string differences_of(const Config& one, const std::string& place, const Config& other,
                           const std::string& other_place) {
  return diloco::config_differences({rules_of(one), place}, {rules_of(other), other_place});
}

Config archived(const std::string& region, const std::filesystem::path& directory,
                const std::vector<std::string>& overrides) {
  try {
    return load_config(diloco::archived_config(directory), overrides);
  } catch (const ConfigError& error) {
    throw ConfigError("--inner: the configuration that " + region +
                      " kept cannot be used: " + error.what() + ". " + kGiveFile);
  }
}

}  // namespace

Config reference_config(const std::filesystem::path& file, const RegionDirectories& directories,
                        const std::vector<std::string>& overrides) {
  if (!file.empty()) return load_config(file, overrides);
  std::optional<Config> reference;
  std::string first;
  std::size_t count = 0;
  for (const auto& [region, directory] : directories) {
    if (!diloco::has_archive(directory)) continue;
    Config config = archived(region, directory, overrides);
    ++count;
    if (!reference) {
      reference = std::move(config);
      first = region;
      continue;
    }
    const std::string differences =
        differences_of(*reference, "in " + first, config, "in " + region);
    if (!differences.empty())
      throw ConfigError(
          "--inner: regions kept different configurations, so one of them did not "
          "train as the run was set (" +
          differences + "): " + kGiveFile);
  }
  if (count < 2)
    throw ConfigError(
        "--inner: a region must not be checked by the configuration that it kept itself, and no "
        "other region's is here: give the directories of more regions, or " +
        std::string(kGiveFile));
  return std::move(*reference);
}

ProofRules proof_rules(const Config& reference, const std::filesystem::path& directory,
                       const std::vector<std::string>& overrides) {
  if (!diloco::has_archive(directory)) return {reference, ""};
  const Config kept = load_config(diloco::archived_config(directory), overrides);
  ProofRules rules{reference, differences_of(kept, "in its archive", reference, "in the run")};
  for (const Key<Config>& key : config_keys())
    if (key.shared_by != SharedBy::run) key.set(rules.config, key.get(kept));
  rules.config.regions = kept.regions;
  return rules;
}

}  // namespace causeway::run
