#include "apps/run/transfer/import_run.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/region/run_error.h"
#include "apps/run/transfer/tar_reader.h"
#include "diloco/files/file_io.h"
#include "inter/base/hex.h"
#include "inter/base/page_buffer.h"
#include "inter/base/sha256.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

Manifest read_manifest(TarReader& tar, const fs::path& archive) {
  const auto first = tar.next();
  if (!first || first->name != kManifestName || first->size > kManifestBytesMax)
    throw RunError(archive.string() +
                   " was not made by `causeway export`: it does not begin with " + kManifestName);
  std::string text(first->size, '\0');
  std::size_t size = 0;
  while (const std::size_t got = tar.read(std::as_writable_bytes(std::span(text)).subspan(size)))
    size += got;
  text.resize(size);
  return parse_manifest(text);
}

void check_room(const fs::path& directory, std::uint64_t bytes) {
  const std::uint64_t free = fs::space(directory).available;
  if (free >= bytes) return;
  throw RunError("the archive needs " + format_bytes(static_cast<double>(bytes)) +
                 ", and the disk of " + directory.string() + " has " +
                 format_bytes(static_cast<double>(free)) +
                 " free: make room, or import to another disk");
}

void unpack(TarReader& tar, const ArchivedFile& expected, const fs::path& directory) {
  const auto found = tar.next();
  if (!found)
    throw RunError("the archive ends before its file " + expected.name + ": it is incomplete");
  if (found->name != expected.name || found->size != expected.size)
    throw RunError("the archive has " + printable_ascii(found->name) + " where " + expected.name +
                   " of " + std::to_string(expected.size) + " bytes belongs: it is damaged");
  const fs::path path = directory / expected.name;
  diloco::create_private_directories(path.parent_path());
  diloco::AtomicFile file(path);
  inter::Sha256 hash;
  const inter::PageBuffer buffer(kTransferBytes);
  while (const std::size_t got = tar.read(buffer.bytes())) {
    hash.update(buffer.bytes().first(got));
    file.append(buffer.bytes().first(got));
  }
  if (inter::hex(hash.finish()) != expected.sha256)
    throw RunError("the archive's file " + expected.name + " is damaged: take another copy");
  file.commit(diloco::Durability::on_disk);
}

// Where a region's worker leaves it, for `causeway verify`.
void link_snapshot(const Manifest& manifest, const fs::path& directory) {
  const fs::path region = directory / "regions" / manifest.region;
  const auto is_blob = [](const ArchivedFile& file) {
    return file.name.find("/spool/") != std::string::npos;
  };
  const auto blob = std::ranges::find_if(manifest.files, is_blob);
  if (blob == manifest.files.end())
    throw RunError("the archive holds no snapshot: it is incomplete");
  const fs::path snapshot = intra::snapshot_file(region);
  diloco::create_private_directories(snapshot.parent_path());
  fs::create_hard_link(directory / blob->name, snapshot);
}

std::string differences(const Verification& verification) {
  std::string text;
  for (const std::string& line : verification.lines) text += "\n  " + line;
  return text;
}

Imported unpack_and_verify(TarReader& tar, Manifest manifest, const fs::path& stage,
                           const fs::path& certificates) {
  diloco::create_private_directories(stage);
  check_room(stage, manifest.bytes());
  for (const ArchivedFile& file : manifest.files) unpack(tar, file, stage);
  if (tar.next()) throw RunError("the archive has more files than it says: do not trust it");
  link_snapshot(manifest, stage);
  Verification verification = verify({stage}, certificates);
  if (!verification.same)
    throw RunError("the archive does not agree with itself, so nothing of it was kept:" +
                   differences(verification));
  return {.manifest = std::move(manifest), .verification = std::move(verification)};
}

}  // namespace

Imported import_run(const fs::path& archive, const fs::path& directory,
                    const fs::path& certificates) {
  if (fs::exists(directory))
    throw ConfigError(directory.string() + " is there already: name a directory that is not");
  TarReader tar(archive);
  Manifest manifest = read_manifest(tar, archive);
  const fs::path stage = directory.string() + ".unfinished";
  fs::remove_all(stage);
  try {
    Imported imported = unpack_and_verify(tar, std::move(manifest), stage, certificates);
    fs::rename(stage, directory);
    return imported;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(stage, ignored);
    throw;
  }
}

}  // namespace causeway::run
