#include "apps/run/replay/replay_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/run/verify/applied_payloads.h"
#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/ledger/ledger_files.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_replay(const std::string& why) {
  throw std::system_error(make_error_code(diloco::Errc::lineage), why);
}

constexpr const char* kKeepAll =
    "this run did not keep its payloads: set ledger.keep = \"all\" in a region's configuration "
    "before a run that is to be replayed";

std::vector<RegionLedger> longest_first(std::vector<RegionLedger> ledgers) {
  std::ranges::stable_sort(ledgers, std::ranges::greater(),
                           [](const RegionLedger& ledger) { return ledger.entries.size(); });
  return ledgers;
}

std::vector<fs::path> directories_of(const std::vector<RegionLedger>& ledgers) {
  std::vector<fs::path> directories;
  for (const RegionLedger& ledger : ledgers) directories.push_back(ledger.directory);
  return directories;
}

std::map<std::string, fs::path> by_region(const std::vector<RegionLedger>& ledgers) {
  std::map<std::string, fs::path> directories;
  for (const RegionLedger& ledger : ledgers) directories.emplace(ledger.name, ledger.directory);
  return directories;
}

// The file comes from a run, which had no mistake in it.
void check_kept(const fs::path& config) {
  try {
    load_config(config, {});
  } catch (const ConfigError& error) {
    refuse_replay(config.string() + " is missing or damaged (" + error.what() +
                  "): put the archive/config.toml of another region there, or replay that region's "
                  "directory");
  }
}

Config kept_config(const std::vector<RegionLedger>& ledgers,
                   const std::vector<std::string>& overrides) {
  for (const RegionLedger& ledger : ledgers) {
    if (!diloco::has_archive(ledger.directory)) continue;
    const fs::path config = diloco::archived_config(ledger.directory);
    check_kept(config);
    return load_config(config, overrides);
  }
  refuse_replay(ledgers.front().directory.string() + " has no archive/: " + kKeepAll);
}

// Records that led there are missing.
[[noreturn]] void refuse_beyond(const RegionLedger& ledger, const std::string& what,
                                diloco::Round version) {
  refuse_replay(
      fmt::format("{}: {} is of version {}, but the ledger ends at version {}: records are missing",
                  ledger.name, what, version, read_records(ledger).standing.size()));
}

}  // namespace

ReplaySource::ReplaySource(const std::vector<fs::path>& paths, const fs::path& certificates,
                           const std::vector<std::string>& overrides)
    : ReplaySource(longest_first(read_region_ledgers(paths)), certificates,
                   [&](const auto& ledgers) { return kept_config(ledgers, overrides); }) {}

ReplaySource::ReplaySource(const std::vector<fs::path>& paths, const fs::path& certificates,
                           const ChooseConfig& choose)
    : ReplaySource(longest_first(read_region_ledgers(paths)), certificates,
                   [&](const auto& ledgers) { return choose(by_region(ledgers)); }) {}

ReplaySource::ReplaySource(std::vector<RegionLedger> ledgers, const fs::path& certificates,
                           const std::function<Config(const std::vector<RegionLedger>&)>& config_of)
    : ledgers_(std::move(ledgers)),
      records_(read_records(ledgers_.front()).standing),
      kept_(directories_of(ledgers_)),
      config_(config_of(ledgers_)) {
  check_history();
  const fs::path trusted =
      certificates.empty() ? certificates_beside(ledgers_.front().directory) : certificates;
  for (const RegionLedger& ledger : ledgers_) {
    if (trusted.empty()) break;
    SignedStates own = signed_states(ledger, read_records(ledgers_.front()), trusted);
    for (const std::string& problem : {own.problem, own.finish_problem})
      if (!problem.empty()) refuse_replay(ledger.name + ": " + problem);
    own_.emplace(ledger.name, std::move(own));
  }
  find_states();
}

void ReplaySource::check_history() const {
  const auto& longest = ledgers_.front().entries;
  for (const RegionLedger& ledger : ledgers_) {
    const auto finished = diloco::read_finished(ledger.directory / "ledger");
    if (finished && finished->at.version > read_records(ledger).standing.size())
      refuse_beyond(ledger, "ledger/finished", finished->at.version);
    if (ledger.entries.back().hash == longest[ledger.entries.size() - 1].hash) continue;
    refuse_replay("the ledgers of " + ledger.name + " and " + ledgers_.front().name +
                  " are not one history: `causeway verify` says where they part");
  }
}

ReplaySource::Signers ReplaySource::signers(diloco::Round version,
                                            const diloco::Digest& state) const {
  Signers signers;
  for (const auto& [region, own] : own_) {
    if (own.finished && own.finished->version == version) {
      (own.finished->state == state ? signers.same : signers.other).push_back(region);
      continue;
    }
    for (const States* states : {&own.right, &own.healed, &own.wrong}) {
      const auto found = states->find(version);
      if (found == states->end()) continue;
      (found->second == state ? signers.same : signers.other).push_back(region);
      break;
    }
  }
  return signers;
}

diloco::Digest ReplaySource::history_hash(diloco::Round round) const {
  const auto& entries = ledgers_.front().entries;
  return std::ranges::find(entries, records_[round], record_in)->hash;
}

const diloco::Membership& ReplaySource::first_members() const {
  for (const diloco::LedgerEntry& entry : ledgers_.front().entries) {
    if (const auto* members = std::get_if<diloco::Membership>(&entry.entry.body)) return *members;
  }
  refuse_replay(ledgers_.front().name + ": the ledger names no members");
}

std::map<std::string, fs::path> ReplaySource::directories() const {
  return by_region(ledgers_);
}

// ---- States to begin from ----

void ReplaySource::find_states() {
  const auto add = [this](const fs::path& file) {
    diloco::Round version = 0;
    intra::StateReader(file).read("version", version);
    if (version > rounds()) refuse_beyond(ledgers_.front(), file.string(), version);
    states_.emplace(version, file);
  };
  for (const RegionLedger& ledger : ledgers_) {
    const fs::path snapshot = intra::snapshot_file(ledger.directory);
    if (fs::exists(snapshot)) add(snapshot);
    if (!diloco::has_archive(ledger.directory)) continue;
    for (const auto& entry : fs::directory_iterator(diloco::archive_directory(ledger.directory))) {
      if (entry.path().extension() == ".safetensors") add(entry.path());
    }
  }
  if (states_.empty()) refuse_replay("there is no state to begin from: " + std::string(kKeepAll));
}

std::string ReplaySource::versions_kept() const {
  std::string text;
  for (auto entry = states_.begin(); entry != states_.end();
       entry = states_.upper_bound(entry->first)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", entry->first);
  }
  return text;
}

diloco::Layout ReplaySource::layout() const {
  const intra::StateReader reader(states_.begin()->second);
  auto layout = intra::parse_tensors(reader.get("tensors"), reader.get("layout"));
  if (!layout) refuse_replay(reader.file().string() + " names other tensors than it holds");
  return std::move(*layout);
}

void ReplaySource::begin(diloco::Round version, const diloco::Layout& layout,
                         intra::OuterState& state) const {
  const auto after = states_.upper_bound(version);
  if (after == states_.begin()) {
    refuse_replay(fmt::format(
        "no state of version {} or an earlier one is kept; those of versions {} are: give --from",
        version, versions_kept()));
  }
  const auto& [found, file] = *std::prev(after);
  if (found >= rounds()) {
    refuse_replay(
        fmt::format("the ledger ends at version {}, and no round follows version {}: give a lower "
                    "--from; states are kept of versions {}",
                    rounds(), found, versions_kept()));
  }
  state.run_id = run_id();
  intra::adopt_snapshot(intra::StateReader(file), layout, found, record(found).state, state);
}

std::vector<diloco::MappedBytes> ReplaySource::payloads(diloco::Round round) const {
  std::vector<diloco::MappedBytes> payloads;
  for (const auto& [blob, name] : applied_payloads(record(round))) {
    auto bytes = kept_.open(blob);
    if (!bytes) {
      refuse_replay(fmt::format(
          "{} ({}) is in none of these regions' spool/ or archive/: give the directories of other "
          "regions as well. A region with ledger.keep = \"all\" that was away fetches what it "
          "lacks while it takes part, if another one has it",
          name, diloco::to_hex(blob.hash)));
    }
    payloads.push_back(std::move(*bytes));
  }
  return payloads;
}

}  // namespace causeway::run
