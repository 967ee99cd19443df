#include "apps/run/verify/kept_files.h"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "apps/run/region/parse_object.h"
#include "apps/run/region/region_files.h"
#include "apps/run/verify/applied_payloads.h"
#include "apps/run/verify/kept_models.h"
#include "apps/run/verify/kept_payloads.h"
#include "apps/run/verify/region_ledger.h"
#include "diloco/files/archive.h"
#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_files.h"
#include "inter/blob/spool_files.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

class KeptFiles {
 public:
  KeptFiles(History& history, const std::vector<fs::path>& runs, Findings& findings)
      : history_(history), runs_(runs), findings_(findings) {}

  void check() {
    compare_snapshots();
    for (const AuditedRegion& region : history_.regions) {
      check_ledger_files(region);
      check_spooled_snapshot(region);
      check_states(region);
    }
    check_payloads();
    check_kept_models(history_, anchors_, runs_, findings_);
  }

 private:
  // A region that goes on with the run takes files away, and makes some that are newer than its
  // ledger was when it was read.
  static bool goes_on(const AuditedRegion& region) {
    return has_coordinator(region.ledger.directory);
  }
  static bool was_taken_away(const AuditedRegion& region, const fs::path& file) {
    return !fs::exists(file) && goes_on(region);
  }

  // Records that would lead there are missing; false then.
  bool is_reached(const AuditedRegion& region, const std::string& what, diloco::Round version) {
    if (version <= history_.rounds()) return true;
    if (goes_on(region)) {
      findings_.cover(region.name(), what + " is of " + version_words(version) +
                                         ", not compared: the run went on meanwhile");
      return false;
    }
    findings_.differ(region.name() + ": " + what + " is of " + version_words(version) +
                     ", but the ledgers end at " + version_words(history_.rounds()) +
                     ": records are missing");
    return false;
  }

  void check_ledger_files(const AuditedRegion& region) {
    for (const std::string& problem : diloco::damaged_files(region.ledger.directory / "ledger"))
      findings_.differ(region.name() + ": " + problem);
    if (!region.own) {
      findings_.reads(region.name(), [&] {
        const auto finished = diloco::read_finished(region.ledger.directory / "ledger");
        if (finished) is_reached(region, "its ledger/finished", finished->at.version);
      });
    }
    for (const char* name : {"result.json", "status.json"}) {
      const auto text = diloco::read_file(region.ledger.directory / name);
      const std::string damaged = region.name() + ": its " + name + " is damaged: ";
      if (text && diloco::checksum_of_json(*text) == diloco::Checksum::wrong) {
        findings_.differ(damaged + "its checksum is wrong");
      } else if (text && !parse_object(*text)) {
        findings_.differ(damaged + "it is no whole JSON object");
      }
    }
    const bool has_result =
        fs::exists(region.ledger.directory / "result.json") || fs::exists(final_of(region));
    const bool told = region.own && !region.own->finish_problem.empty();
    if (has_result && region.own && !region.own->finished && !told)
      findings_.lack(region.name() +
                     " has a result, but no signed ledger/finished that says of which state it is");
  }

  // ---- Snapshots ----

  void compare_snapshots() {
    std::map<diloco::Round, const AuditedRegion*> firsts;
    for (AuditedRegion& region : history_.regions) {
      const bool read = findings_.reads(
          region.name(), [&] { region.snapshot = read_snapshot_leaves(region.ledger.directory); });
      if (!read) continue;
      if (!region.snapshot) {
        tell_of_no_snapshot(region);
        continue;
      }
      const diloco::Round version = region.snapshot->version;
      if (!is_reached(region, "its snapshot", version)) continue;
      check_snapshot(region, version_words(version));
      const auto [first, fresh] = firsts.emplace(version, &region);
      if (fresh) continue;
      const auto where = first_difference(*first->second->snapshot, *region.snapshot);
      if (where)
        findings_.differ("the snapshots of " + version_words(version) + " in " +
                         first->second->name() + " and " + region.name() + " differ first in " +
                         *where);
    }
  }

  void tell_of_no_snapshot(const AuditedRegion& region) {
    if (region.own && region.own->finished)
      findings_.lack(region.name() + " finished, and its checkpoints/snapshot.safetensors is gone");
    findings_.cover("snapshot of " + region.name(), "there is none");
  }

  void check_snapshot(const AuditedRegion& region, const std::string& which) {
    const diloco::Digest* state = history_.state_of(region.snapshot->version);
    const std::string name = "snapshot of " + region.name();
    if (history_.was_taken_back(region, region.snapshot->version))
      return findings_.cover(name, "of " + which + ", which was taken back after its ledger ends");
    if (state == nullptr)
      return findings_.cover(name,
                             "of " + which +
                                 ", the last, not compared: no signature says "
                                 "which state that is until a round follows or the run is over");
    if (*state != region.snapshot->state)
      return findings_.differ(region.name() + ": its snapshot of " + which +
                              " is not the agreed state");
    findings_.cover(name, "of " + which + ", which has the agreed state");
    anchors_[region.snapshot->version] = &region.snapshot->spans.at("anchor");
  }

  // The one that others would be given. Its description is not signed.
  void check_spooled_snapshot(const AuditedRegion& region) {
    const fs::path description = region.ledger.directory / "ledger" / "snapshot";
    std::optional<diloco::Snapshot> snapshot;
    if (!findings_.reads(region.name(), [&] { snapshot = diloco::read_snapshot(description); }) ||
        !snapshot)
      return;
    if (!is_reached(region, "its ledger/snapshot", snapshot->version) ||
        history_.was_taken_back(region, snapshot->version))
      return;
    const diloco::Digest* state = history_.state_of(snapshot->version);
    const std::string which = version_words(snapshot->version);
    const bool forked = snapshot->version == 0 && state == nullptr;
    if (state != nullptr && *state != snapshot->state)
      return findings_.differ(region.name() + ": its ledger/snapshot names another state of " +
                              which + " than the agreed one");
    const fs::path blob = inter::blob_path(region.ledger.directory / "spool", snapshot->blob);
    if (forked || !fs::exists(blob)) return;
    const auto check = [&] {
      if (read_leaves(blob).state != snapshot->state)
        findings_.differ(region.name() + ": " + blob.string() + " is not the state of " + which +
                         " that its ledger/snapshot names");
    };
    findings_.reads(region.name(), check, [&] { return was_taken_away(region, blob); });
  }

  // ---- Training states ----

  void check_states(const AuditedRegion& region) {
    std::size_t seen = 0, right = 0, unknown = 0;
    std::vector<fs::path> files = intra::state_files(region.ledger.directory);
    const std::size_t own = files.size();
    for (const fs::path& file : archived_states(region.ledger.directory)) files.push_back(file);
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto check = [&] {
        const SnapshotLeaves state = i < own ? read_state_leaves(files[i]) : read_leaves(files[i]);
        if (!is_reached(region, files[i].string(), state.version) ||
            history_.was_taken_back(region, state.version))
          return;
        const diloco::Digest* agreed = history_.state_of(state.version);
        if (agreed == nullptr) {
          ++unknown;
        } else if (*agreed != state.state) {
          findings_.differ(region.name() + ": " + files[i].string() +
                           " is not the agreed state of " + version_words(state.version));
        } else {
          ++right;
        }
      };
      const auto gone = [&] { return was_taken_away(region, files[i]); };
      if (findings_.reads(region.name(), check, gone) || !gone()) ++seen;
    }
    check_contributions(region);
    if (seen == 0) return;
    std::string line = fmt::format("{} of {} have the agreed state of their version", right, seen);
    if (unknown > 0)
      line += fmt::format("; {} of the last version, of which no state is signed", unknown);
    findings_.cover("state files of " + region.name(), line);
  }

  static std::vector<fs::path> archived_states(const fs::path& region) {
    std::vector<fs::path> files;
    if (!diloco::has_archive(region)) return files;
    for (const auto& entry : fs::directory_iterator(diloco::archive_directory(region)))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    return files;
  }

  void check_contributions(const AuditedRegion& region) {
    const fs::path directory = intra::checkpoint_directory(region.ledger.directory);
    if (!fs::is_directory(directory)) return;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().stem();
      if (!name.starts_with("contribution-")) continue;
      const std::optional<std::string> bytes = diloco::read_file(entry.path());
      if (!bytes) continue;  // the region has just let go of it
      const std::string hash = diloco::to_hex(diloco::tree_hash(std::as_bytes(std::span(*bytes))));
      if (!hash.starts_with(name.substr(name.find('-') + 1)))
        findings_.differ(region.name() + ": " + entry.path().string() +
                         " is damaged: it is not what its name says");
    }
  }

  // ---- Payloads ----

  void check_payloads() {
    std::vector<fs::path> directories;
    bool archived = false;
    for (const AuditedRegion& region : history_.regions) {
      directories.push_back(region.ledger.directory);
      archived = archived || diloco::has_archive(region.ledger.directory);
    }
    const KeptPayloads kept(directories);
    std::size_t here = 0;
    Listed listed;
    std::string first_missing;
    std::set<fs::path> told;
    for (const diloco::CommitRecord* record : history_.longest->records.standing) {
      listed.sums += record->sums.size();
      for (const auto& [blob, which] : applied_payloads(*record)) {
        const KeptPayloads::Copies copies = kept.copies(blob);
        for (const fs::path& file : copies.damaged)
          if (told.insert(file).second)
            findings_.differ(which + ": " + describe_damage(file, blob) +
                             (copies.good > 0 ? "; another copy is good" : ""));
        for (const std::string& why : copies.unread) findings_.not_read(which + ": " + why);
        listed_.insert(blob);
        ++listed.payloads;
        if (copies.good > 0) ++here;
        if (copies.good == 0 && first_missing.empty()) first_missing = which;
      }
    }
    tell_of_payloads(listed, here, archived, first_missing);
    for (const fs::path& directory : directories)
      for (const fs::path& place : {directory / "spool", diloco::archive_directory(directory)})
        check_other_blobs(place);
  }

  void check_blob(const fs::path& file, const inter::BlobId& blob) {
    try {
      if (fs::file_size(file) != blob.size_bytes || inter::identify(file) != blob)
        findings_.differ(describe_damage(file, blob));
    } catch (const std::system_error& error) {
      if (fs::exists(file)) findings_.not_read(error.what());
    }
  }

  // That no record lists: snapshots, and payloads that were too late.
  void check_other_blobs(const fs::path& place) {
    if (!fs::is_directory(place)) return;
    for (const auto& entry : fs::directory_iterator(place)) {
      const auto blob = inter::named_blob(entry.path().filename().string());
      if (blob && !listed_.contains(*blob)) check_blob(entry.path(), *blob);
    }
  }

  struct Listed {
    std::size_t payloads = 0;
    std::size_t sums = 0;  // so many of them
  };
  void tell_of_payloads(const Listed& listed, std::size_t here, bool archived,
                        const std::string& first_missing) {
    std::string line =
        fmt::format("{} of {} are here and are what the records list", here, listed.payloads);
    if (listed.sums > 0) line += fmt::format(" ({} of these as sums of shards)", listed.sums);
    if (here < listed.payloads && archived)
      findings_.lack(count(listed.payloads - here, "payload") +
                     " although ledger.keep = \"all\" was set: " + first_missing + " is the first");
    else if (here < listed.payloads)
      line += "; the others were not kept (ledger.keep = \"all\" keeps them)";
    else if (listed.payloads > 0)
      line += "; `causeway replay` computes the states again from them";
    findings_.cover("payloads", line);
  }

  History& history_;
  const std::vector<fs::path>& runs_;
  Findings& findings_;
  VerifiedAnchors anchors_;
  std::set<inter::BlobId> listed_;  // payloads
};

}  // namespace

void check_kept_files(History& history, const std::vector<fs::path>& runs, Findings& findings) {
  KeptFiles(history, runs, findings).check();
}

}  // namespace causeway::run
