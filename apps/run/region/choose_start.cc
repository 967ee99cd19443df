#include "apps/run/region/choose_start.h"

#include <chrono>

#include <spdlog/spdlog.h>

#include "apps/run/region/parse_object.h"
#include "inter/mesh/observer.h"

namespace causeway::run {
namespace {

// Empty: it is in none yet, or does not answer.
std::string run_of(const inter::Endpoint& address, const inter::Credentials& credentials) {
  if (address.host.empty() || address.port == 0) return "";
  try {
    const auto status = parse_object(inter::observe(
        {.address = address, .credentials = credentials, .deadline = std::chrono::seconds(3)}));
    return status ? get<std::string>(*status, "run_id") : "";
  } catch (const std::runtime_error&) {
    return "";
  }
}

}  // namespace

diloco::Start choose_start(const Config& config, const std::string& region,
                           const std::filesystem::path& directory,
                           const std::map<std::string, inter::Endpoint>& others,
                           const inter::Credentials& credentials) {
  if (std::filesystem::exists(directory / "ledger" / "run")) return diloco::Start::resume;
  if (region != config.sync.founder) return diloco::Start::join;
  for (const auto& [name, address] : others) {
    const std::string run = run_of(address, credentials);
    if (run.empty()) continue;
    spdlog::warn(
        "{}: {} is in run {} already, and {} holds nothing of it: this region joins that run "
        "instead of founding another",
        region, name, run, directory.string());
    return diloco::Start::join;
  }
  return diloco::Start::found;
}

}  // namespace causeway::run
