#include "apps/run/transfer/export_run.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/verify/named_snapshot.h"
#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "inter/base/hash.h"
#include "inter/base/text.h"
#include "inter/blob/spool.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

struct Source {
  ArchivedFile file;
  std::string content;                // all of it,
  std::span<const std::byte> mapped;  // unless it is too large to be held in memory
};

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
                        .content = std::move(content),
                        .mapped = {}});
  }
  void add_if_there(const std::string& name, const fs::path& path) {
    if (auto content = diloco::read_file(path)) add(name, std::move(*content));
  }
  // `mapped` must outlive these.
  void add(const std::string& name, std::span<const std::byte> mapped) {
    inter::Sha256 hash;
    hash.update(mapped);
    const std::string sha256 = inter::hex(hash.finish());
    sources_.push_back({.file = {.name = name, .size = mapped.size(), .sha256 = sha256},
                        .content = {},
                        .mapped = mapped});
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
  if (source.mapped.empty()) return tar.write(std::as_bytes(std::span(source.content)));
  inter::Sha256 hash;
  for (std::span<const std::byte> rest = source.mapped; !rest.empty();) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), kTransferBytes));
    hash.update(part);
    tar.write(part);
    rest = rest.subspan(part.size());
  }
  if (inter::hex(hash.finish()) != source.file.sha256)
    diloco::throw_damaged(source.file.name, "it changed while it was copied");
}

// Commands may hold passwords, and are for the host that they were written for. Nor are comments
// taken along.
std::string shared_config(Config config, std::vector<std::string>& left_out) {
  if (!config.checkpoint_after.empty()) left_out.push_back("checkpoint.after");
  config.checkpoint_after.clear();
  return to_toml(config);
}

}  // namespace

Exported export_run(const ExportOptions& options, const TarWriter::Sink& sink) {
  const fs::path region = region_with_newest_snapshot(options.directory);
  const fs::path config_file = config_of(options, region);
  const Config config = load_config(config_file, {});
  const fs::path certificates = certificates_for(region, options.certificates, config.certificates);
  const NamedSnapshot named = read_named_snapshot(region, certificates);
  const fs::path ledger = region / "ledger";

  Exported exported{.manifest = {.run_id = named.ledger.run_id,
                                 .region = named.ledger.name,
                                 .version = named.snapshot.version,
                                 .files = {}},
                    .left_out = {}};
  Manifest& manifest = exported.manifest;
  Sources sources;
  sources.add("config.toml", shared_config(config, exported.left_out));
  add_certificates(certificates, sources);
  const std::string there = "regions/" + manifest.region;
  for (const std::string_view name : kLedgerFiles) {
    const std::string file = there + "/ledger/" + std::string(name);
    if (name == "records") {
      sources.add(file, whole_records(ledger, manifest.run_id, manifest.rounds));
    } else if (name == "snapshot") {
      sources.add(file, named.pointer);  // the run may have replaced it
    } else {
      sources.add_if_there(file, ledger / name);
    }
  }
  sources.add(there + "/spool/" + named.file.filename().string(), named.content.bytes());

  for (const Source& source : sources.all()) manifest.files.push_back(source.file);
  const std::string first = to_json(manifest);
  TarWriter tar(sink);
  tar.begin(kManifestName, first.size());
  tar.write(std::as_bytes(std::span(first)));
  for (const Source& source : sources.all()) copy(source, tar);
  tar.finish();
  return exported;
}

}  // namespace causeway::run
