#include "apps/run/verify/region_ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "apps/run/region/region_files.h"
#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_files.h"
#include "diloco/log/withdraw.h"
#include "inter/blob/spool.h"
#include "inter/tls/pki.h"
#include "inter/tls/signature.h"

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

namespace {

// The first entry that the key did not sign, in words; empty: it signed all.
std::string first_unsigned(const RegionLedger& ledger, const inter::VerifyingKey& key) {
  for (std::size_t i = 0; i < ledger.entries.size(); ++i) {
    const diloco::LedgerEntry& entry = ledger.entries[i];
    if (!key.verify(diloco::signed_content(entry.hash), entry.signature))
      return describe(entry, i) + " is not signed by its certificate";
    if (entry.own.has_value() != !entry.own_signature.empty() ||
        (entry.own &&
         !key.verify(diloco::signed_content(entry.hash, *entry.own), entry.own_signature))) {
      return "the state that it contributed from at " + describe(entry, i) +
             " is not signed by its certificate";
    }
  }
  return {};
}

// By entry: the region made that contribution from a state that was taken back afterwards, which
// was no fault of its own.
std::vector<bool> taken_back(const RegionLedger& ledger,
                             const std::vector<Records::Withdrawal>& withdrawals) {
  std::vector<bool> back(ledger.entries.size());
  std::size_t first = 0;  // entry that has the same
  for (std::size_t i = 0; i < ledger.entries.size(); ++i) {
    const auto& own = ledger.entries[i].own;
    if (i == 0 || own != ledger.entries[i - 1].own) first = i;
    back[i] = own && std::ranges::any_of(withdrawals, [&](const Records::Withdrawal& one) {
                return first <= one.entry && own->version > one.round;
              });
  }
  return back;
}

void sort_states(const RegionLedger& ledger, const Records& records, SignedStates& states) {
  const States agreed = agreed_states(records);
  const std::vector<bool> back = taken_back(ledger, records.withdrawals);
  diloco::Round right_below = 0;  // versions that a right state came after
  for (std::size_t i = ledger.entries.size(); i-- > 0;) {
    const diloco::LedgerEntry* const entry = &ledger.entries[i];
    const auto right = entry->own && !back[i] ? agreed.find(entry->own->version) : agreed.end();
    if (right == agreed.end()) continue;
    const auto& [version, state] = *entry->own;
    if (state == right->second) {
      states.right[version] = state;
      right_below = std::max(right_below, version + 1);
    } else {
      (version < right_below ? states.healed : states.wrong)[version] = state;
    }
  }
}

// Signed with the hash of what was then the last entry: the record before that version, or an entry
// between it and the next one.
bool is_signed_finish(const RegionLedger& ledger, const inter::VerifyingKey& key,
                      const diloco::SignedFinish& finished) {
  diloco::Round version = 0;
  std::uint32_t revision = 0;
  for (const diloco::LedgerEntry& entry : ledger.entries) {
    if (const diloco::CommitRecord* const record = record_in(entry)) {
      const diloco::Effect effect = diloco::effect_of(*record, version, revision);
      if (effect != diloco::Effect::none) version = record->round + 1;
      if (effect == diloco::Effect::replaces) ++revision;
    }
    if (version == finished.at.version &&
        key.verify(diloco::signed_content(entry.hash, finished.at), finished.signature))
      return true;
  }
  return false;
}

void add_finish(const RegionLedger& ledger, diloco::Round rounds, const inter::VerifyingKey& key,
                SignedStates& states) {
  const auto finished = diloco::read_finished(ledger.directory / "ledger");
  if (!finished) return;
  const std::string version = fmt::format("version {}", finished->at.version);
  if (finished->at.version > rounds) {
    states.finish_problem = fmt::format(
        "its ledger/finished says that it ended at {}, but its ledger ends at version {}: records "
        "are missing",
        version, rounds);
  } else if (is_signed_finish(ledger, key, *finished)) {
    states.finished = finished->at;
  } else {
    states.finish_problem =
        "its ledger/finished, of " + version + ", is not signed by its certificate for its ledger";
  }
}

}  // namespace

States agreed_states(const Records& records) {
  States states;
  for (const diloco::CommitRecord* record : records.standing) states[record->round] = record->state;
  return states;
}

SignedStates signed_states(const RegionLedger& ledger, const Records& records,
                           const std::filesystem::path& certificates) {
  const inter::Credentials files = inter::credentials_in(certificates, ledger.name);
  const inter::VerifyingKey key(files.certificate);
  SignedStates states;
  states.problem = inter::objection_to_signer(files, ledger.name);
  if (states.problem.empty()) states.problem = first_unsigned(ledger, key);
  if (!states.problem.empty()) return states;
  sort_states(ledger, records, states);
  add_finish(ledger, read_records(ledger).standing.size(), key, states);
  return states;
}

namespace fs = std::filesystem;

namespace {

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
