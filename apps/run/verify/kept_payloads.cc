#include "apps/run/verify/kept_payloads.h"

#include <fcntl.h>
#include <unistd.h>

#include <spdlog/spdlog.h>

#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "inter/blob/spool_files.h"

namespace causeway::run {

namespace fs = std::filesystem;

namespace {

std::optional<diloco::MappedBytes> map_if_it_is(const fs::path& file,
                                                const inter::BlobId& payload) {
  if (fs::file_size(file) != payload.size_bytes) return std::nullopt;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) diloco::throw_errno("open", file);
  diloco::MappedBytes bytes(descriptor, payload.size_bytes);
  if (diloco::sha256(bytes.bytes()) != payload.hash) return std::nullopt;
  return bytes;
}

}  // namespace

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
    if (map_if_it_is(file, payload)) {
      ++copies.good;
    } else {
      copies.damaged.push_back(file);
    }
  }
  return copies;
}

std::optional<diloco::MappedBytes> KeptPayloads::open(const inter::BlobId& payload) const {
  const std::vector<fs::path> candidates = files(payload);
  for (const fs::path& file : candidates) {
    if (auto bytes = map_if_it_is(file, payload)) return bytes;
    spdlog::warn("{} is damaged: its content is not what its name, which is its SHA-256, says",
                 file.string());
  }
  if (candidates.empty()) return std::nullopt;
  throw std::system_error(make_error_code(diloco::Errc::lineage),
                          candidates.front().string() +
                              " is damaged: its content is not what its name, which is its "
                              "SHA-256, says; take the file from another region's directory");
}

}  // namespace causeway::run
