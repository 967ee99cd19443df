#include "apps/run/transfer/manifest.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"
#include "apps/run/region/run_error.h"

namespace causeway::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "causeway-export 1";
constexpr std::size_t kHexDigits = 64;

bool is_harmless(const std::string& part) {
  const auto is_plain = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !part.empty() && part.front() != '.' && std::ranges::all_of(part, is_plain);
}

bool stays_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_relative() && path.generic_string() == name &&
         std::ranges::all_of(path, [](const auto& part) { return is_harmless(part.string()); });
}

ArchivedFile parse_file(const nlohmann::json& json) {
  ArchivedFile file{.name = get<std::string>(json, "name"),
                    .size = get<std::uint64_t>(json, "size"),
                    .sha256 = get<std::string>(json, "sha256")};
  if (!stays_inside(file.name))
    throw RunError("the archive names a file \"" + printable_ascii(file.name) +
                   "\", which no export does: do not trust it");
  if (file.sha256.size() != kHexDigits)
    throw RunError("the archive has no hash of its file " + file.name + ": it is damaged");
  return file;
}

}  // namespace

std::uint64_t Manifest::bytes() const {
  return std::accumulate(
      files.begin(), files.end(), std::uint64_t{0},
      [](std::uint64_t sum, const ArchivedFile& file) { return sum + file.size; });
}

std::string to_json(const Manifest& manifest) {
  Json files = Json::array();
  for (const ArchivedFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}});
  return Json{{"format", kFormat},           {"run", manifest.run_id},
              {"region", manifest.region},   {"rounds", manifest.rounds},
              {"version", manifest.version}, {"files", files}}
             .dump(2) +
         "\n";
}

Manifest parse_manifest(const std::string& text) {
  const auto json = parse_object(text);
  if (!json) throw RunError("the archive's " + std::string(kManifestName) + " is damaged");
  const auto format = get<std::string>(*json, "format");
  if (format != kFormat)
    throw RunError("the archive is of format \"" + printable_ascii(format) +
                   "\"; this program reads \"" + kFormat +
                   "\": import it with the version of Causeway that exported it");
  Manifest manifest{.run_id = get<std::string>(*json, "run"),
                    .region = get<std::string>(*json, "region"),
                    .rounds = get<std::uint64_t>(*json, "rounds"),
                    .version = get<std::uint64_t>(*json, "version"),
                    .files = {}};
  if (!is_harmless(manifest.run_id) || !is_harmless(manifest.region))
    throw RunError("the archive's " + std::string(kManifestName) +
                   " names no run or no region: it is damaged");
  std::set<std::string> names;
  for (const auto& file : (*json)["files"]) {
    manifest.files.push_back(parse_file(file));
    if (!names.insert(manifest.files.back().name).second)
      throw RunError("the archive has two files " + manifest.files.back().name +
                     ": do not trust it");
  }
  return manifest;
}

}  // namespace causeway::run
