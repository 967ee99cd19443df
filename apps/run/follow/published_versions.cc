#include "apps/run/follow/published_versions.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "diloco/files/file_io.h"
#include "inter/base/file.h"
#include "inter/base/text.h"
#include "inter/blob/spool_files.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kPart = ".part";
constexpr const char* kFacts = "version.json";

// In one step, whatever it pointed to before.
void link_to(const fs::path& link, const fs::path& target) {
  const fs::path part = link.string() + kPart;
  fs::remove(part);
  fs::create_symlink(target, part);
  fs::rename(part, link);
}

}  // namespace

PublishedVersions::PublishedVersions(fs::path directory, std::size_t kept)
    : directory_(std::move(directory)), versions_(directory_ / "versions"), kept_(kept) {
  diloco::create_private_directories(versions_);
  for (const char* name : {"current", "current.json"}) {
    if (fs::exists(fs::symlink_status(directory_ / name)) && !fs::is_symlink(directory_ / name)) {
      throw ConfigError((directory_ / name).string() +
                        " is none that a follower made: give it a directory of its own");
    }
  }
  for (const auto& entry : fs::directory_iterator(versions_))
    if (entry.path().extension() == kPart) fs::remove_all(entry.path());
}

ordered_json PublishedVersions::current() const {
  const auto text = diloco::read_file(directory_ / "current" / kFacts);
  auto facts = ordered_json::parse(text.value_or("null"), nullptr, false);
  return facts.is_object() ? facts : ordered_json(nullptr);  // a disk may have damaged it
}

ordered_json PublishedVersions::publish(diloco::Round version, const diloco::Digest& digest,
                                        const Write& write, ordered_json facts) {
  const std::string name = std::to_string(version) + "-" + diloco::to_hex(digest).substr(0, 8);
  const fs::path part = versions_ / (name + kPart);
  try {
    fs::remove_all(part);
    diloco::create_private_directories(part);
    write(part);
    const fs::path model = part / "model.safetensors";
    facts["model_sha256"] = inter::hex(inter::hash_file(model, fs::file_size(model)));
    diloco::replace_file(part / kFacts, facts.dump(2) + "\n", diloco::Durability::on_disk);
    inter::sync_directory(part);
    fs::remove_all(versions_ / name);  // a process was killed before it was pointed to
    fs::rename(part, versions_ / name);
    inter::sync_directory(versions_);
    point_at(name);
  } catch (const std::system_error&) {
    std::error_code ignored;
    fs::remove_all(part, ignored);
    throw;
  }
  remove_old(name);
  return facts;
}

void PublishedVersions::amend(const ordered_json& facts) {
  diloco::replace_file(directory_ / "current" / kFacts, facts.dump(2) + "\n",
                       diloco::Durability::on_disk);
}

void PublishedVersions::point_at(const std::string& name) {
  link_to(directory_ / "current", fs::path("versions") / name);
  if (!fs::is_symlink(directory_ / "current.json"))
    link_to(directory_ / "current.json", fs::path("current") / kFacts);
  inter::sync_directory(directory_);
}

// By age: a version that the run took back has a higher number than those after it.
void PublishedVersions::remove_old(const std::string& newest) {
  std::vector<std::pair<fs::file_time_type, fs::path>> others;
  for (const auto& entry : fs::directory_iterator(versions_))
    if (entry.path().filename() != newest)
      others.emplace_back(entry.last_write_time(), entry.path());
  std::ranges::sort(others, std::ranges::greater());
  for (std::size_t i = kept_ - 1; i < others.size(); ++i) {
    std::error_code ignored;
    fs::remove_all(others[i].second, ignored);
  }
}

}  // namespace causeway::run
