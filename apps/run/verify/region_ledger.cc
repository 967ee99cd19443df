#include "apps/run/verify/region_ledger.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "apps/run/region/region_files.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_files.h"
#include "diloco/log/withdraw.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_directory(const fs::path& path, const std::string& why) {
  throw std::system_error(make_error_code(diloco::Errc::lineage), path.string() + why);
}

bool has_ledger(const fs::path& directory) {
  return fs::exists(directory / "ledger" / "records");
}

std::vector<fs::path> ledgers_in(const fs::path& path) {
  if (!stands_for_all_regions(path)) return {path};
  // A run of `causeway simulate` has a link to a region's, but it is no region.
  std::vector<fs::path> regions = regions_in(
      path, [](const fs::path& one) { return has_ledger(one) && regions_folder(one) == one; });
  if (regions.empty()) {
    refuse_directory(path,
                     " has no ledger/records, and no directory in it or in its regions/ has: name "
                     "a region's directory (runs/NAME/REGION, or runs/NAME/regions/REGION of "
                     "`causeway simulate`), or the run's (runs/NAME)");
  }
  return regions;
}

// The member whose disk this is, by the newest log entry that names it.
std::string name_of(const fs::path& directory, const std::vector<diloco::LedgerEntry>& entries) {
  const std::string incarnation = diloco::read_incarnation(directory / "ledger");
  for (auto entry = entries.rbegin(); entry != entries.rend() && !incarnation.empty(); ++entry) {
    const auto* membership = std::get_if<diloco::Membership>(&entry->entry.body);
    if (membership == nullptr) continue;
    const auto member =
        std::ranges::find(membership->members, incarnation, &diloco::Member::incarnation);
    if (member != membership->members.end()) return member->region;
  }
  return fs::weakly_canonical(directory).filename();
}

}  // namespace

bool stands_for_all_regions(const fs::path& path) {
  return fs::is_directory(path / "regions") || !has_ledger(path);
}

std::vector<fs::path> region_directories(const std::vector<fs::path>& paths) {
  std::vector<fs::path> regions;
  std::set<fs::path> seen;
  for (const fs::path& path : paths) {
    for (const fs::path& region : ledgers_in(path)) {
      if (!seen.insert(fs::weakly_canonical(region)).second)
        refuse_directory(region, " was named twice: what is compared with itself is always equal");
      regions.push_back(region);
    }
  }
  return regions;
}

RegionLedger read_region_ledger(const fs::path& region_directory) {
  const fs::path directory = region_directory / "ledger";
  RegionLedger ledger{.directory = region_directory,
                      .name = {},
                      .run_id = diloco::read_run_id(directory),
                      .entries = {}};
  const auto keep = [&](diloco::LedgerEntry entry, std::size_t) {
    ledger.entries.push_back(std::move(entry));
  };
  ledger.torn_bytes = diloco::scan_ledger(directory / "records", ledger.run_id, keep).torn_bytes;
  if (ledger.entries.empty()) {
    refuse_directory(region_directory,
                     " has a ledger without entries: there is nothing to check. Was the run ever "
                     "begun, or was ledger/records emptied? Take another region's directory");
  }
  ledger.name = name_of(region_directory, ledger.entries);
  return ledger;
}

std::vector<RegionLedger> read_region_ledgers(const std::vector<fs::path>& paths) {
  std::vector<RegionLedger> ledgers;
  for (const fs::path& region : region_directories(paths)) {
    ledgers.push_back(read_region_ledger(region));
    const RegionLedger &first = ledgers.front(), &last = ledgers.back();
    if (last.run_id == first.run_id) continue;
    refuse_directory(region, " is of run " + last.run_id + ", but " + first.directory.string() +
                                 " is of run " + first.run_id +
                                 ": different runs; name regions of one run");
  }
  return ledgers;
}

fs::path certificates_beside(const fs::path& region_directory) {
  const fs::path directory =
      fs::weakly_canonical(region_directory).parent_path().parent_path() / "certificates";
  return fs::exists(directory / "ca.crt") ? directory : fs::path();
}

const diloco::CommitRecord* record_in(const diloco::LedgerEntry& entry) {
  return std::get_if<diloco::CommitRecord>(&entry.entry.body);
}

namespace {

[[noreturn]] void refuse_record(const RegionLedger& ledger, const diloco::CommitRecord& record,
                                const std::string& why) {
  refuse_directory(ledger.directory,
                   fmt::format("/ledger/records has a record of round {} of run {}{}", record.round,
                               record.run_id, why));
}

// It must be the record that it takes the place of, and nothing else.
void check_withdrawal(const RegionLedger& ledger, const diloco::CommitRecord& before,
                      const diloco::CommitRecord& record) {
  std::set<diloco::ContributionKey> lost;
  for (const diloco::Participant& one : record.withdrawn) lost.insert(key_of(one));
  if (serialize(withdraw(before, lost, record.revision)) == serialize(record)) return;
  refuse_record(ledger, record, " that changes more of it than what it takes out");
}

}  // namespace

Records read_records(const RegionLedger& ledger) {
  Records records;
  auto& standing = records.standing;
  for (std::size_t i = 0; i < ledger.entries.size(); ++i) {
    const diloco::CommitRecord* record = record_in(ledger.entries[i]);
    if (record == nullptr) continue;
    const auto effect = record->run_id == ledger.run_id
                            ? effect_of(*record, standing.size(),
                                        static_cast<std::uint32_t>(records.withdrawals.size()))
                            : diloco::Effect::none;
    if (effect == diloco::Effect::none) {
      if (record->run_id == ledger.run_id && record->revision < records.withdrawals.size())
        continue;
      refuse_record(
          ledger, *record,
          fmt::format(" where round {} of run {} belongs", standing.size(), ledger.run_id));
    }
    if (effect == diloco::Effect::replaces) {
      check_withdrawal(ledger, *standing[record->round], *record);
      standing.resize(record->round);
      records.withdrawals.push_back({.round = record->round, .entry = i});
    }
    standing.push_back(record);
  }
  return records;
}

std::string describe(const diloco::LedgerEntry& entry, std::size_t index) {
  const diloco::CommitRecord* record = record_in(entry);
  std::string text = fmt::format("entry {}", index + 1);
  if (record == nullptr) return text + " (no round)";
  text += fmt::format(" (round {}{}", record->round, record->withdrawn.empty() ? ":" : " again:");
  for (const auto& participant : record->participants) text += " " + participant.region;
  return text + ")";
}

}  // namespace causeway::run
