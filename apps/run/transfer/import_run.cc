#include "apps/run/transfer/import_run.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/region/region_files.h"
#include "apps/run/transfer/archive_error.h"
#include "apps/run/transfer/tar.h"
#include "apps/run/verify/named_snapshot.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "inter/base/atomic_file.h"
#include "inter/base/file.h"
#include "inter/base/hash.h"
#include "inter/base/text.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

Manifest read_manifest(TarReader& tar) {
  const auto first = tar.next();
  if (!first || first->name != kManifestName || first->size > kManifestBytesMax)
    throw ArchiveError(
        std::string("it was not made by `causeway export`: it does not begin with ") +
        kManifestName + ". Name an archive that was");
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
  throw std::system_error(ENOSPC, std::generic_category(),
                          "the archive needs " + format_bytes(static_cast<double>(bytes)) +
                              ", and the disk of " + directory.string() + " has " +
                              format_bytes(static_cast<double>(free)) +
                              " free: make room, or import to another disk");
}

void unpack(TarReader& tar, const ArchivedFile& expected, const fs::path& directory) {
  const auto found = tar.next();
  if (!found)
    throw ArchiveError("the archive ends before its file " + expected.name +
                       ": it is incomplete. Take another copy");
  if (found->name != expected.name || found->size != expected.size)
    throw ArchiveError(
        fmt::format("the archive has {} of {} bytes where {} of {} bytes belongs: it is damaged. "
                    "Take another copy",
                    found->name, found->size, expected.name, expected.size));
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
    throw ArchiveError("the archive's file " + expected.name + " is damaged: take another copy");
  file.commit(diloco::Durability::on_disk);
}

// The manifest is what anybody may have written: it says nothing that the checked ledger does not.
void check_figures(const Manifest& manifest, const NamedSnapshot& named) {
  const RegionLedger& ledger = named.ledger;
  const bool same = manifest.run_id == ledger.run_id && manifest.region == ledger.name &&
                    manifest.rounds == read_records(ledger).standing.size() &&
                    manifest.version == named.snapshot.version;
  if (same) return;
  throw ArchiveError(
      "the archive's " + std::string(kManifestName) +
      " has another run, region, number of rounds or version than the ledger in it: do "
      "not trust it");
}

// Nothing signs it: what it has must be what an export writes, and that starts no command.
void check_config(const fs::path& stage) {
  const fs::path file = stage / "config.toml";
  if (!fs::exists(file)) return;
  try {
    if (load_config(file, {}).checkpoint_after.empty()) return;
  } catch (const ConfigError& error) {
    throw ArchiveError("the archive's config.toml cannot be read: " + std::string(error.what()));
  }
  throw ArchiveError(
      "the archive's config.toml has checkpoint.after, a command that a run would start. `causeway "
      "export` leaves it out, so somebody changed the archive: do not trust it");
}

// Where a region's worker leaves it, for `causeway verify`.
void link_snapshot(const NamedSnapshot& named) {
  const fs::path snapshot = intra::snapshot_file(named.ledger.directory);
  diloco::create_private_directories(snapshot.parent_path());
  inter::give_second_name(named.file, snapshot);
}

Imported unpack_and_check(TarReader& tar, Manifest manifest, const fs::path& stage,
                          const fs::path& certificates) {
  check_room(stage, manifest.bytes());
  for (const ArchivedFile& file : manifest.files) unpack(tar, file, stage);
  if (tar.next()) throw ArchiveError("the archive has more files than it says: do not trust it");
  const fs::path region = stage / "regions" / manifest.region;
  const NamedSnapshot named =
      read_named_snapshot(region, certificates_for(region, certificates, {}));
  check_figures(manifest, named);
  check_config(stage);
  link_snapshot(named);
  return {.manifest = std::move(manifest), .entries = named.ledger.entries.size()};
}

// Its own, whoever else imports: what is there already may be somebody's.
void create_stage(const fs::path& stage) {
  if (stage.has_parent_path()) diloco::create_private_directories(stage.parent_path());
  if (::mkdir(stage.c_str(), 0700) == 0) return;
  if (errno != EEXIST) diloco::throw_errno("create", stage);
  throw ConfigError(stage.string() +
                    " is there already, and the archive would be unpacked there: another import is "
                    "under way, or was cut short. Remove it if none is, or name another directory");
}

Imported import_tar(TarReader& tar, const fs::path& directory, const fs::path& certificates) {
  Manifest manifest = read_manifest(tar);
  const fs::path stage = directory.string() + ".unfinished";
  create_stage(stage);
  try {
    Imported imported = unpack_and_check(tar, std::move(manifest), stage, certificates);
    fs::rename(stage, directory);
    return imported;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(stage, ignored);
    throw;
  }
}

}  // namespace

Imported import_run(const fs::path& archive, const fs::path& named_directory,
                    const fs::path& certificates) {
  // Without a slash at its end.
  const fs::path directory =
      named_directory.has_filename() ? named_directory : named_directory.parent_path();
  if (fs::exists(fs::symlink_status(directory)))
    throw ConfigError(directory.string() + " is there already: name a directory that is not");
  try {
    TarReader tar(archive);
    return import_tar(tar, directory, certificates);
  } catch (const ArchiveError& error) {
    const std::string name = archive == "-" ? "standard input" : archive.string();
    throw std::system_error(make_error_code(diloco::Errc::lineage), name + ": " + error.what());
  }
}

}  // namespace causeway::run
