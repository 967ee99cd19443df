#include "apps/run/transfer/manifest.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/run/region/parse_object.h"
#include "apps/run/region/region_files.h"
#include "apps/run/transfer/archive_error.h"
#include "inter/blob/spool_files.h"

namespace causeway::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "causeway-export 1";
constexpr std::size_t kHexDigits = 64;
// Sums of sizes stay below it, and so can be counted.
constexpr std::uint64_t kBytesMax = std::numeric_limits<std::int64_t>::max();

bool is_harmless(std::string_view part) {
  const auto is_plain = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !part.empty() && part.front() != '.' && std::ranges::all_of(part, is_plain);
}

bool is_certificate(std::string_view name) {
  return is_harmless(name) && (name.ends_with(".crt") || name == "ca.crl");
}

bool is_of_region(std::string_view name) {
  constexpr std::string_view kLedger = "ledger/", kSpool = "spool/";
  if (name.starts_with(kSpool)) return inter::named_blob(name.substr(kSpool.size())).has_value();
  return name.starts_with(kLedger) &&
         std::ranges::count(kLedgerFiles, name.substr(kLedger.size())) == 1;
}

// Whether an export makes it. Nothing else is unpacked: whoever goes on from the directory might
// take it for the run's.
bool is_exported(std::string_view name, const std::string& region) {
  constexpr std::string_view kCertificates = "certificates/";
  const std::string there = "regions/" + region + "/";
  if (name.starts_with(kCertificates)) return is_certificate(name.substr(kCertificates.size()));
  if (name.starts_with(there)) return is_of_region(name.substr(there.size()));
  return name == "config.toml";
}

ArchivedFile parse_file(const nlohmann::json& json, const std::string& region) {
  ArchivedFile file{.name = get<std::string>(json, "name"),
                    .size = get<std::uint64_t>(json, "size"),
                    .sha256 = get<std::string>(json, "sha256")};
  if (!is_exported(file.name, region))
    throw ArchiveError("the archive names a file \"" + file.name +
                       "\", which no export does: do not trust it");
  if (file.sha256.size() != kHexDigits)
    throw ArchiveError("the archive has no hash of its file " + file.name + ": it is damaged");
  return file;
}

void parse_files(const nlohmann::json& json, Manifest& manifest) {
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array())
    throw ArchiveError("the archive's " + std::string(kManifestName) +
                       " lists no files: it is damaged");
  std::set<std::string> names;
  std::uint64_t room = kBytesMax;
  for (const auto& one : *files) {
    const ArchivedFile& file = manifest.files.emplace_back(parse_file(one, manifest.region));
    if (!names.insert(file.name).second)
      throw ArchiveError("the archive has two files " + file.name + ": do not trust it");
    if (file.size > room)
      throw ArchiveError(
          "the archive says that it holds more bytes than any disk: do not trust it");
    room -= file.size;
  }
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
  if (!json) throw ArchiveError("the archive's " + std::string(kManifestName) + " is damaged");
  const auto format = get<std::string>(*json, "format");
  if (format != kFormat)
    throw ArchiveError("the archive is of format \"" + format + "\"; this program reads \"" +
                       kFormat + "\": import it with the version of Causeway that exported it");
  Manifest manifest{.run_id = get<std::string>(*json, "run"),
                    .region = get<std::string>(*json, "region"),
                    .rounds = get<std::uint64_t>(*json, "rounds"),
                    .version = get<std::uint64_t>(*json, "version"),
                    .files = {}};
  if (!is_harmless(manifest.run_id) || !is_harmless(manifest.region))
    throw ArchiveError("the archive's " + std::string(kManifestName) +
                       " names no run or no region: it is damaged");
  parse_files(*json, manifest);
  return manifest;
}

}  // namespace causeway::run
