#include "apps/run/region/run_directory.h"

#include <array>
#include <chrono>
#include <ctime>
#include <set>
#include <sstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "apps/run/region/region_files.h"
#include "diloco/files/file_io.h"
#include "inter/base/file.h"
#include "inter/tls/pki.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

std::set<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

// What may change while a run is stopped.
bool may_change(const std::string& line) {
  return line.starts_with("budget.");
}

void refuse_another_run(const fs::path& stored, const Config& config) {
  const std::set<std::string> before = lines_of(shared_settings(load_config(stored, {})));
  const std::set<std::string> now = lines_of(shared_settings(config));
  std::string difference;
  for (const std::string& line : before) {
    if (!now.contains(line) && !may_change(line)) difference += "\n  there: " + line;
  }
  for (const std::string& line : now) {
    if (!before.contains(line) && !may_change(line)) difference += "\n  here:  " + line;
  }
  if (difference.empty()) return;
  throw ConfigError(
      stored.string() +
      ": the run there has other settings; resume it with its own, or give another --out" +
      difference);
}

// The name only tells people whose authority it is. With " CA" it may be longer than a certificate
// can have, so it is cut.
void create_certificates(const fs::path& directory, const Config& config) {
  if (!fs::exists(directory / "ca.crt"))
    inter::create_ca(directory, config.name.substr(0, inter::kCaNameMax));
  for (const RegionConfig& region : config.regions) {
    if (!fs::exists(inter::credentials_in(directory, region.name).certificate)) {
      inter::add_region(directory, region.name);
    }
  }
}

// The directory, made if need be, and nobody else's as long as the descriptor is open.
std::optional<diloco::Descriptor> open_alone(const fs::path& path) {
  const std::string flag = "--out " + path.string();
  try {
    diloco::create_private_directories(path);
    if (auto lock = diloco::lock_file(path / "lock")) return lock;
  } catch (const std::system_error& error) {
    const std::string dangling = inter::dangling_link_in(path);
    throw ConfigError(flag + ": cannot be written (" +
                      (dangling.empty() ? error.code().message() : dangling) +
                      "); give another directory");
  }
  throw ConfigError(flag +
                    ": another `causeway simulate` runs there; stop it, or give another directory");
}

void link_files(const fs::path& made, const fs::path& target) {
  fs::remove_all(target);
  diloco::create_private_directories(target);
  for (const auto& file : fs::directory_iterator(made)) {
    const fs::path linked = target / file.path().filename();
    std::error_code error;
    fs::create_hard_link(file, linked, error);
    if (error) fs::copy_file(file, linked);  // a file system without hard links
  }
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, const Config& config, bool resume)
    : path_(std::move(path)) {
  const bool holds_run = fs::exists(config_file());
  if (holds_run && !resume) {
    throw ConfigError(
        "--out " + path_.string() +
        ": holds a run already; continue it with --resume, or give another directory");
  }
  if (!holds_run && resume)
    throw ConfigError("--out " + path_.string() + ": holds no run that could be resumed");
  lock_ = open_alone(path_);
  if (resume) refuse_another_run(config_file(), config);
  for (const RegionConfig& region : config.regions)
    diloco::create_private_directories(this->region(region.name));
  create_certificates(certificates(), config);
  if (!resume) write_spent({.began_s = unix_seconds()});
  write_text_file(config_file(), to_toml(config));  // last: from here on it holds a run
}

RunDirectory::Spent read_spent(const fs::path& run_directory) {
  const auto json =
      nlohmann::json::parse(read_text_file(run_directory / "simulation.json"), nullptr, false);
  RunDirectory::Spent spent;
  if (!json.is_object()) return spent;
  spent.began_s = json.value("began_s", 0.0);
  spent.wall_s = json.value("wall_s", 0.0);
  spent.baseline_wall_s = json.value("baseline_wall_s", 0.0);
  spent.restarts = json.value("restarts", 0U);
  spent.worker = json.value("worker", "");
  return spent;
}

RunDirectory::Spent RunDirectory::read_spent() const {
  return run::read_spent(path_);
}

void RunDirectory::write_spent(const Spent& spent) const {
  nlohmann::ordered_json json = {{"began_s", spent.began_s},
                                 {"wall_s", spent.wall_s},
                                 {"baseline_wall_s", spent.baseline_wall_s},
                                 {"restarts", spent.restarts}};
  if (!spent.worker.empty()) json["worker"] = spent.worker;
  write_text_file(path_ / "simulation.json", json.dump(2) + "\n");
}

void RunDirectory::link_outputs(const std::string& founder) const {
  const fs::path made = region(founder) / "checkpoints" / "final";
  if (fs::exists(made)) link_files(made, path_ / "checkpoints" / "final");
  const fs::path ledger = path_ / "ledger";
  if (!fs::is_symlink(ledger))
    fs::create_directory_symlink(fs::path("regions") / founder / "ledger", ledger);
}

fs::path region_path(const Config& config, const std::string& region, const fs::path& given) {
  return given.empty() ? fs::path("runs") / config.name / region : given;
}

fs::path default_run_path(const std::string& name) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &utc);
  return fs::path("runs") / (name + "-" + text.data());
}

}  // namespace causeway::run
