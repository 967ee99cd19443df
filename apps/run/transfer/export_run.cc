#include "apps/run/transfer/export_run.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/verify/region_ledger.h"
#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger.h"
#include "diloco/worker/worker_session.h"
#include "inter/base/hex.h"
#include "inter/base/page_buffer.h"
#include "inter/base/sha256.h"
#include "inter/blob/spool_files.h"
#include "inter/tls/pki.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

struct Source {
  ArchivedFile file;
  fs::path path;        // read when its turn comes,
  std::string content;  // unless this is all of it
};

struct Region {
  fs::path directory;
  diloco::Snapshot snapshot;
};

Region newest_of(const fs::path& directory) {
  std::optional<Region> newest;
  for (const fs::path& region : region_directories({directory})) {
    const auto snapshot = diloco::read_snapshot(region / "ledger" / "snapshot");
    if (snapshot && (!newest || snapshot->version > newest->snapshot.version))
      newest = Region{region, *snapshot};
  }
  if (newest) return *newest;
  throw ConfigError(directory.string() +
                    " has no snapshot yet, so there is nothing to go on from: the run confirms one "
                    "every train.checkpoint_rounds rounds and at its end");
}

fs::path config_of(const ExportOptions& options, const fs::path& region) {
  if (!options.config.empty()) return options.config;
  const fs::path beside = fs::weakly_canonical(region).parent_path().parent_path() / "config.toml";
  if (fs::exists(beside)) return beside;
  if (fs::exists(diloco::archived_config(region))) return diloco::archived_config(region);
  throw ConfigError(region.string() + " keeps no configuration: name the run's with --config FILE");
}

class Sources {
 public:
  void add(const std::string& name, std::string content) {
    inter::Sha256 hash;
    hash.update(std::as_bytes(std::span(content)));
    const std::uint64_t size = content.size();
    sources_.push_back({.file = {.name = name, .size = size, .sha256 = inter::hex(hash.finish())},
                        .path = {},
                        .content = std::move(content)});
  }
  void add_if_there(const std::string& name, const fs::path& path) {
    if (auto content = diloco::read_file(path)) add(name, std::move(*content));
  }
  // Too large to be held in memory; what its name says is checked by whoever reads it.
  void add(const std::string& name, const fs::path& path, const inter::BlobId& blob) {
    sources_.push_back(
        {.file = {.name = name, .size = blob.size_bytes, .sha256 = inter::hex(blob.hash)},
         .path = path,
         .content = {}});
  }
  const std::vector<Source>& all() const { return sources_; }

 private:
  std::vector<Source> sources_;
};

// Whole entries alone: the last may be in the middle of being written.
std::string whole_records(const fs::path& ledger, const std::string& run_id,
                          std::uint64_t& rounds) {
  std::string bytes = diloco::read_file(ledger / "records").value_or("");
  const auto count = [&](const diloco::LedgerEntry& entry, std::size_t) {
    if (record_in(entry) != nullptr) ++rounds;
  };
  const diloco::LedgerExtent extent = diloco::scan_entries(bytes, run_id, count);
  if (!extent.damage.empty()) diloco::throw_damaged(ledger / "records", extent.damage);
  bytes.resize(extent.whole_bytes);
  return bytes;
}

void add_certificates(const fs::path& directory, Sources& sources) {
  if (directory.empty()) return;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".crt" || path.filename() == "ca.crl") files.push_back(path);
  }
  std::ranges::sort(files);
  for (const fs::path& file : files)
    sources.add_if_there("certificates/" + file.filename().string(), file);
}

void copy(const Source& source, TarWriter& tar) {
  tar.begin(source.file.name, source.file.size);
  if (source.path.empty()) return tar.write(std::as_bytes(std::span(source.content)));
  const inter::File file(source.path, O_RDONLY | O_CLOEXEC);
  const inter::PageBuffer buffer(kTransferBytes);
  inter::Sha256 hash;
  for (std::uint64_t offset = 0; offset < source.file.size; offset += kTransferBytes) {
    const auto part =
        buffer.bytes().first(std::min<std::uint64_t>(source.file.size - offset, kTransferBytes));
    inter::read_exactly(source.path, file, offset, part);
    hash.update(part);
    tar.write(part);
  }
  if (inter::hex(hash.finish()) != source.file.sha256)
    diloco::throw_damaged(
        source.path, "its content is not what its name says; export another region's directory");
}

}  // namespace

Manifest export_run(const ExportOptions& options, const TarWriter::Sink& sink) {
  const Region region = newest_of(options.directory);
  const fs::path config = config_of(options, region.directory);
  load_config(config, {});
  const fs::path ledger = region.directory / "ledger";

  Manifest manifest{.run_id = diloco::read_run_id(ledger),
                    .region = read_region_ledger(region.directory).name,
                    .version = region.snapshot.version,
                    .files = {}};
  Sources sources;
  sources.add_if_there("config.toml", config);
  add_certificates(
      options.certificates.empty() ? certificates_beside(region.directory) : options.certificates,
      sources);
  const std::string there = "regions/" + manifest.region;
  for (const char* name : {"run", "incarnation", "snapshot", "finished"})
    sources.add_if_there(there + "/ledger/" + name, ledger / name);
  sources.add(there + "/ledger/records", whole_records(ledger, manifest.run_id, manifest.rounds));
  const fs::path spooled = inter::blob_path(region.directory / "spool", region.snapshot.blob);
  sources.add(there + "/spool/" + spooled.filename().string(), spooled, region.snapshot.blob);

  for (const Source& source : sources.all()) manifest.files.push_back(source.file);
  const std::string first = to_json(manifest);
  TarWriter tar(sink);
  tar.begin(kManifestName, first.size());
  tar.write(std::as_bytes(std::span(first)));
  for (const Source& source : sources.all()) copy(source, tar);
  tar.finish();
  return manifest;
}

}  // namespace causeway::run
