#include "diloco/coordinator/region_directory.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/coordinator/coordinator.h"
#include "diloco/coordinator/kept_settings.h"
#include "diloco/files/archive.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/ledger/ledger_files.h"
#include "diloco/worker/last_word.h"
#include "inter/blob/spool.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kProbeBytes = 1U << 20;

bool is_witness(const CoordinatorOptions& options) {
  const auto self = std::ranges::find(options.members, options.region, &Member::region);
  return self != options.members.end() && self->witness;
}

// One seed per disk, so that regions do not stand for election in step.
std::uint64_t seed_from(const std::string& incarnation) {
  return std::stoull(incarnation.substr(0, 16), nullptr, 16);
}

// Why these options cannot work; empty if they can.
std::string objection(const CoordinatorOptions& options) {
  const Membership membership = configured_membership(options);
  if (membership.find(options.region) == nullptr) {
    return "region " + options.region + " is not among the run's regions";
  }
  if (options.protocol.contributions_min > membership.region_count()) {
    return fmt::format("a round cannot need {} contributions from {} regions",
                       options.protocol.contributions_min, membership.region_count());
  }
  return {};
}

// As the entries say that are whole, without a change to any file.
Membership members_in(const std::filesystem::path& ledger) {
  Membership newest;
  scan_records(ledger / "records", read_run_id(ledger), [&](const LedgerEntry& entry, std::size_t) {
    const auto* members = std::get_if<Membership>(&entry.entry.body);
    if (members != nullptr) newest = *members;
  });
  return newest;
}

void refuse_anothers(const CoordinatorOptions& options, const std::string& incarnation,
                     const Membership& membership) {
  for (const Member& member : membership.members) {
    if (member.region == options.region || member.incarnation != incarnation) continue;
    throw std::system_error(make_error_code(Errc::lineage),
                            options.directory.string() + " is that of region " + member.region +
                                ": give " + options.region + " its own with --directory");
  }
}

// Committed ones, or some that may be.
bool holds_rounds(const RaftState& known) {
  return known.first > 1 || std::ranges::any_of(known.log, [](const LogEntry& entry) {
           return std::holds_alternative<CommitRecord>(entry.body);
         });
}

}  // namespace

std::optional<RunOutcome> RegionDirectory::open() {
  if (std::optional<RunOutcome> refusal = open_ledger()) return refusal;
  if (std::optional<RunOutcome> refusal = keep_settings()) return refusal;
  take_back_last_word(options_.directory);
  const std::uint64_t capacity_bytes = options_.protocol.spool_bytes == 0
                                           ? std::numeric_limits<std::uint64_t>::max()
                                           : options_.protocol.spool_bytes;
  for (const char* part : {"", "ledger"}) remove_leftovers(options_.directory / part);
  spool_.emplace(options_.directory / "spool", capacity_bytes);
  files_.emplace(options_.directory, options_.region, ledger_->run_id());
  if (!options_.kept_config.empty()) open_archive(options_.directory, options_.kept_config);
  return std::nullopt;
}

std::optional<RunOutcome> RegionDirectory::keep_settings() const {
  const KeptSettings kept(options_.directory);
  const std::string of_records = kept.changed_for_records(options_.shared_config);
  if (!of_records.empty() && holds_rounds(ledger_->raft())) {
    return RunOutcome{
        2,
        "this run has rounds that were made with other settings, and can be applied again only "
        "with those: " +
            of_records +
            ". Put back the values from before, in the files of all regions. If the other regions "
            "made rounds with the new values meanwhile, change nothing there: empty this region's "
            "directory and start it with --join. A run with other settings of the same model can "
            "begin with this run's weights: start it with --fork in another directory "
            "(docs/members.md, \"Forking a run\")"};
  }
  if (const std::string changed = kept.changed(options_.shared_config); !changed.empty()) {
    spdlog::warn("{}: the run goes on with other settings than this region had before: {}",
                 options_.region, changed);
  }
  kept.replace(options_.shared_config);
  return std::nullopt;
}

std::optional<RunOutcome> RegionDirectory::open_ledger() {
  if (const std::string text = objection(options_); !text.empty()) return RunOutcome{2, text};
  create_private_directories(options_.directory);
  const std::string directory = options_.directory.string();
  // Before the ledger is opened, which signs anew what another region's key has signed.
  const std::filesystem::path ledger = options_.directory / "ledger";
  const std::string incarnation = read_incarnation(ledger);
  if (!incarnation.empty()) refuse_anothers(options_, incarnation, members_in(ledger));
  signing_key_.emplace(options_.mesh.credentials.key);
  const inter::VerifyingKey own(options_.mesh.credentials.certificate);
  ledger_.emplace(
      ledger, [this](const std::string& content) { return signing_key_->sign(content); },
      [&own](const std::string& content, const std::string& signature) {
        return own.verify(content, signature);
      },
      own.sha256());
  const bool founds = options_.start == Start::found || options_.start == Start::fork;
  if (!ledger_->run_id().empty()) {
    if (!founds) return std::nullopt;
    if (is_founded_and_not_begun()) {
      spdlog::info("{}: {} was founded before and has not begun; it goes on from there",
                   options_.region, directory);
      return std::nullopt;
    }
    return RunOutcome{4, directory + " already holds run " + ledger_->run_id() +
                             ": start without --found or --fork to resume it, or use another "
                             "directory"};
  }
  if (options_.start == Start::join) return std::nullopt;
  if (founds) {
    found_run();
    return std::nullopt;
  }
  return RunOutcome{
      4, directory +
             " holds no run: start one region with --found to begin a new run (--fork to "
             "begin with another run's weights), and the others with --join to take "
             "part"};
}

// What came between founding and the first round, such as a port in use, is no reason not to found.
bool RegionDirectory::is_founded_and_not_begun() const {
  const RaftState known = ledger_->raft();
  if (options_.start != Start::found || known.first != 1 || known.log.empty()) return false;
  const auto* const first = std::get_if<Membership>(&known.log.front().body);
  return first != nullptr && !first->origin && !holds_rounds(known) &&
         first->regions() == configured_membership(options_).regions();
}

// The first entry of a new log says who may take part; so far only the founder votes.
void RegionDirectory::found_run() {
  Membership membership = configured_membership(options_);
  Member self = *membership.find(options_.region);
  self.incarnation = ledger_->incarnation();
  membership = with(membership, std::move(self));
  if (options_.start == Start::fork) {
    assert(options_.fork);
    copy_origin(*options_.fork, options_.directory / "spool");
    membership.origin = options_.fork->origin;
    ledger_->save(Snapshot{0, membership.origin->state, membership.origin->blob});
    spdlog::info("{}: forks run {} at version {}", options_.region, membership.origin->run_id,
                 membership.origin->version);
  }
  ledger_->found(random_name(), {.term = 1, .body = membership});
  reached(ProtocolState::run_founded);
}

ProtocolOptions RegionDirectory::protocol_options() const {
  ProtocolOptions protocol = options_.protocol;
  protocol.self = options_.region;
  protocol.incarnation = ledger_->incarnation();
  protocol.witness = is_witness(options_);
  protocol.heartbeat = protocol.election / 4;
  protocol.seed = seed_from(ledger_->incarnation());
  return protocol;
}

PersistentState RegionDirectory::state() const {
  const std::vector<inter::BlobId> blobs = spool_->complete();
  return {.run_id = ledger_->run_id(),
          .raft = ledger_->raft(),
          .contributions = ledger_->contributions(),
          .snapshot = ledger_->snapshot(),
          .finished = ledger_->finished(),
          .blobs = {blobs.begin(), blobs.end()}};
}

void RegionDirectory::refuse_if_anothers(const Membership& membership) const {
  refuse_anothers(options_, ledger_->incarnation(), membership);
}

void RegionDirectory::carry_out(const RemoveBlob& action) {
  if (action.listed && !options_.kept_config.empty() && spool_->has(action.blob))
    archive(options_.directory, spool_->path(action.blob));
  spool_->remove(action.blob);
  reached(ProtocolState::payload_removed);
}

void RegionDirectory::carry_out(const SaveContributions& action) {
  ledger_->save(action.contributions);
  reached(ProtocolState::contribution_saved);
}

void RegionDirectory::carry_out(const SaveSnapshot& action) {
  ledger_->save(action.snapshot);
  reached(ProtocolState::snapshot_saved);
}

void RegionDirectory::save(const SaveRaft& action, bool leads) {
  ledger_->save_raft(action.term, action.vote, action.first_index, action.entries);
  reached(action.entries.empty() ? ProtocolState::vote_saved
          : leads                ? ProtocolState::proposal_saved
                                 : ProtocolState::entries_saved);
}

void RegionDirectory::append(const AppendLedger& action,
                             const std::optional<Contribution>& newest_own) {
  reached(ProtocolState::record_committed);
  for (const LogEntry& entry : action.entries) {
    const auto* const record = std::get_if<CommitRecord>(&entry.body);
    if (record != nullptr && !record->withdrawn.empty())
      ledger_->void_finished_after(record->round);
  }
  ledger_->append(action.entries, newest_own
                                      ? std::optional(Applied{newest_own->round, newest_own->state})
                                      : std::nullopt);
  reached(ProtocolState::record_appended);
}

std::string RegionDirectory::lacking_room(const std::vector<inter::BlobId>& wanted) const {
  std::optional<std::uint64_t> least;
  for (const inter::BlobId& blob : wanted) {
    const std::uint64_t left = blob.size_bytes - spool_->received_bytes(blob);
    least = std::min(left, least.value_or(left));
  }
  std::error_code error;
  const auto disk = std::filesystem::space(options_.directory, error);
  const std::uint64_t room = disk.available + spool_->spare_bytes();
  if (!least || error || room >= *least) return {};
  constexpr std::uint64_t kMega = 1'000'000;
  return fmt::format(
      "; the disk of its directory has {} MB free, and at least {} MB are needed: make room on it",
      room / kMega, *least / kMega + 1);
}

bool RegionDirectory::takes_bytes(std::uint64_t bytes) const {
  std::error_code unknown;
  if (std::filesystem::space(options_.directory, unknown).available < bytes) return false;
  const std::filesystem::path probe = options_.directory / "probe";
  bool taken = false;
  try {
    replace_file(probe, std::string(kProbeBytes, 'x'), Durability::on_disk);
    taken = true;
  } catch (const std::system_error&) {
  }
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
  return taken;
}

void copy_origin(const Fork& fork, const std::filesystem::path& spool) {
  inter::Spool own(spool, std::numeric_limits<std::uint64_t>::max());
  const inter::BlobId copied = own.put((*fork.content)->bytes());
  fork.content->reset();
  if (copied == fork.origin.blob) return;
  throw std::system_error(make_error_code(Errc::lineage),
                          fork.snapshot.string() + " is damaged; take another region's directory");
}

}  // namespace causeway::diloco
