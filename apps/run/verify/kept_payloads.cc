#include "apps/run/verify/kept_payloads.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "inter/blob/spool.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

std::optional<diloco::MappedBytes> map_if_it_is(const fs::path& file,
                                                const inter::BlobId& payload) {
  if (!fs::exists(file) || fs::file_size(file) != payload.size_bytes) return std::nullopt;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return std::nullopt;
  if (descriptor < 0) diloco::throw_errno("open", file);
  diloco::MappedBytes bytes(descriptor, payload.size_bytes);
  if (inter::identify(bytes.bytes()) != payload) return std::nullopt;
  return bytes;
}

}  // namespace

std::string describe_damage(const fs::path& file, const inter::BlobId& blob) {
  return file.string() + " is damaged: it " +
         inter::damage_of(file, blob).value_or("was read differently before");
}

std::vector<fs::path> KeptPayloads::files(const inter::BlobId& payload) const {
  std::vector<fs::path> found;
  for (const fs::path& region : regions_) {
    for (const fs::path& file : {inter::blob_path(diloco::archive_directory(region), payload),
                                 inter::blob_path(region / "spool", payload)}) {
      if (fs::is_regular_file(file)) found.push_back(file);
    }
  }
  return found;
}

KeptPayloads::Copies KeptPayloads::copies(const inter::BlobId& payload) const {
  Copies copies;
  for (const fs::path& file : files(payload)) {
    try {
      if (map_if_it_is(file, payload)) {
        ++copies.good;
      } else if (fs::exists(file)) {  // a run that goes on takes some away
        copies.damaged.push_back(file);
      }
    } catch (const std::system_error& error) {
      if (fs::exists(file)) copies.unread.emplace_back(error.what());
    }
  }
  return copies;
}

std::optional<diloco::MappedBytes> KeptPayloads::open(const inter::BlobId& payload) const {
  fs::path damaged;
  for (const fs::path& file : files(payload)) {
    if (auto bytes = map_if_it_is(file, payload)) return bytes;
    if (!fs::exists(file)) continue;
    spdlog::warn("{}", describe_damage(file, payload));
    if (damaged.empty()) damaged = file;
  }
  if (damaged.empty()) return std::nullopt;
  throw std::system_error(
      make_error_code(diloco::Errc::lineage),
      describe_damage(damaged, payload) + "; take the file from another region's directory");
}

}  // namespace causeway::run
