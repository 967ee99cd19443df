#include "apps/run/verify/verify.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include "apps/run/region/region_files.h"
#include "apps/run/verify/snapshot_leaves.h"
#include "diloco/files/error.h"
#include "diloco/log/ledger_file.h"
#include "inter/tls/pki.h"
#include "inter/tls/signature.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

using States = std::map<diloco::Round, std::string>;  // hex digests by version

const std::string* find(const States& states, diloco::Round version) {
  const auto found = states.find(version);
  return found == states.end() ? nullptr : &found->second;
}

struct Region {
  fs::path directory;
  std::string name;
  std::string run_id;
  std::vector<diloco::LedgerEntry> entries;
  States reported;  // by events.jsonl
};

std::string read_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

Region open_region(const fs::path& directory) {
  const fs::path ledger = directory / "ledger";
  if (!fs::exists(ledger / "records")) {
    throw std::system_error(make_error_code(diloco::Errc::lineage),
                            directory.string() +
                                " has no ledger/records: name a region's directory, " +
                                "such as runs/NAME/regions/REGION");
  }
  Region region{.directory = directory,
                .name = {},
                .run_id = read_line(ledger / "run"),
                .entries = {},
                .reported = {}};
  region.entries = diloco::read_ledger(ledger / "records", region.run_id);
  for (const Event& event : read_events(directory / "events.jsonl")) {
    region.name = event.region;
    if (event.event == "round") region.reported[event.round + 1] = event.state;
  }
  if (region.name.empty()) region.name = fs::absolute(directory).lexically_normal().filename();
  return region;
}

const diloco::CommitRecord* record_in(const diloco::LedgerEntry& entry) {
  return std::get_if<diloco::CommitRecord>(&entry.entry.body);
}

std::string describe(const diloco::LedgerEntry& entry, std::size_t index) {
  const diloco::CommitRecord* record = record_in(entry);
  std::string text = "entry " + std::to_string(index + 1);
  if (record == nullptr) return text + " (no round)";
  text += " (round " + std::to_string(record->round) + ":";
  for (const auto& participant : record->participants) text += " " + participant.region;
  return text + ")";
}

// The state that the records agree on for each version, as far as there are records.
States agreed_states(const Region& region) {
  States states;
  for (const diloco::LedgerEntry& entry : region.entries) {
    const diloco::CommitRecord* record = record_in(entry);
    if (record != nullptr) states[record->round] = diloco::to_hex(record->state);
  }
  return states;
}

// The states that the region signed it contributed from. A wrong one is healed if the right one of
// that version, or of a higher one, came after it.
struct SignedStates {
  States right, healed, wrong;
};

SignedStates signed_states(const Region& region, const States& agreed) {
  SignedStates states;
  diloco::Round right_below = 0;  // versions that a right state came after
  for (auto entry = region.entries.rbegin(); entry != region.entries.rend(); ++entry) {
    const std::string* right = entry->own ? find(agreed, entry->own->version) : nullptr;
    if (right == nullptr) continue;
    const diloco::Round version = entry->own->version;
    const std::string state = diloco::to_hex(entry->own->state);
    if (state == *right) {
      states.right[version] = state;
      right_below = std::max(right_below, version + 1);
    } else {
      (version < right_below ? states.healed : states.wrong)[version] = state;
    }
  }
  return states;
}

class Verifier {
 public:
  Verifier(Region a, Region b) : a_(std::move(a)), b_(std::move(b)) {}

  Verification run(const fs::path& certificates) {
    if (a_.run_id != b_.run_id) {
      differ("different runs: " + a_.run_id + " in " + a_.name + ", " + b_.run_id + " in " +
             b_.name);
      return std::move(result_);
    }
    if (certificates.empty()) say("signatures are not checked; --certificates DIR checks them");
    for (const Region* region : {&a_, &b_}) {
      if (!certificates.empty()) check_signatures(*region, certificates);
      check_states(*region);
    }
    compare_ledgers();
    compare_last_states();
    compare_snapshots();
    return std::move(result_);
  }

 private:
  void say(const std::string& line) { result_.lines.push_back(line); }
  void differ(const std::string& line) {
    result_.same = false;
    say(line);
  }

  void check_signatures(const Region& region, const fs::path& certificates) {
    const inter::VerifyingKey key(inter::credentials_in(certificates, region.name).certificate);
    for (std::size_t i = 0; i < region.entries.size(); ++i) {
      const diloco::LedgerEntry& entry = region.entries[i];
      if (!key.verify(diloco::signed_content(entry.hash), entry.signature)) {
        return differ(region.name + ": " + describe(entry, i) +
                      " is not signed by its certificate");
      }
      if (entry.own &&
          !key.verify(diloco::signed_content(entry.hash, *entry.own), entry.own_signature)) {
        return differ(region.name + ": the state that it contributed from at " +
                      describe(entry, i) + " is not signed by its certificate");
      }
    }
    say(region.name + ": " + std::to_string(region.entries.size()) +
        " entries, all signed by its certificate");
  }

  // What the region itself had, by its ledger and by its events, against what the records agree on.
  void check_states(const Region& region) {
    const auto agreed = agreed_states(region);
    const SignedStates own = signed_states(region, agreed);
    std::size_t compared = 0, not_signed = 0;
    for (const auto& [version, state] : agreed) {
      const std::string* in_ledger = find(own.right, version);
      const std::string* reported = find(region.reported, version);
      const bool misreported = reported != nullptr && *reported != state;
      const std::string* wrong = find(own.wrong, version);
      const bool right_later = own.right.lower_bound(version) != own.right.end();
      if (wrong == nullptr && misreported && !right_later) wrong = reported;
      if (wrong != nullptr) return differ_in_state(region, version, *wrong, state);
      if (misreported || own.healed.contains(version)) {
        say(region.name + ": its state of version " + std::to_string(version) +
            " was wrong, and was healed");
      }
      const bool right_reported = reported != nullptr && !misreported;
      if (in_ledger != nullptr || right_reported) ++compared;
      if (in_ledger == nullptr && right_reported) ++not_signed;
    }
    std::string line =
        region.name + ": " + std::to_string(compared) + " states are the agreed ones";
    if (not_signed > 0) {
      line +=
          ", " + std::to_string(not_signed) + " of them only by events.jsonl, which is not signed";
    }
    say(line);
  }

  void differ_in_state(const Region& region, diloco::Round version, const std::string& own,
                       const std::string& agreed) {
    differ(region.name + ": its state of version " + std::to_string(version) + " (" +
           own.substr(0, 16) + ") is not the agreed one (" + agreed.substr(0, 16) + "): " +
           (version == 0
                ? "it began with other weights"
                : "round " + std::to_string(version - 1) + " was not applied as the others did"));
  }

  void compare_ledgers() {
    const std::size_t common = std::min(a_.entries.size(), b_.entries.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (a_.entries[i].hash == b_.entries[i].hash) continue;
      return differ("the ledgers differ from " + describe(a_.entries[i], i) + " in " + a_.name +
                    " and " + describe(b_.entries[i], i) + " in " + b_.name + " on");
    }
    const auto rounds =
        std::count_if(a_.entries.begin(), a_.entries.begin() + static_cast<std::ptrdiff_t>(common),
                      [](const diloco::LedgerEntry& entry) { return record_in(entry) != nullptr; });
    say("the history is the same in " + std::to_string(common) + " entries, " +
        std::to_string(rounds) + " of them rounds");
    const std::size_t more = std::max(a_.entries.size(), b_.entries.size()) - common;
    if (more > 0) {
      say((a_.entries.size() > common ? a_.name : b_.name) + " knows " + std::to_string(more) +
          " more entries");
    }
  }

  // No record follows the last round, so none says which state is the agreed one after it.
  void compare_last_states() {
    if (a_.reported.empty() || b_.reported.empty()) return;
    const auto& [version, state] = *a_.reported.rbegin();
    const std::string* other = find(b_.reported, version);
    const bool followed =
        agreed_states(a_).contains(version) || agreed_states(b_).contains(version);
    if (other == nullptr || followed) return;
    const std::string which = "state of version " + std::to_string(version) + ", the last,";
    if (*other == state) {
      return say("the same " + which + " by events.jsonl, which is not signed");
    }
    differ("another " + which + " in " + a_.name + " (" + state.substr(0, 16) + ") than in " +
           b_.name + " (" + other->substr(0, 16) + "): they applied round " +
           std::to_string(version - 1) + " differently");
  }

  void compare_snapshots() {
    const auto snapshot_a = read_snapshot_leaves(a_.directory);
    const auto snapshot_b = read_snapshot_leaves(b_.directory);
    if (snapshot_a) check_snapshot(a_, *snapshot_a);
    if (snapshot_b) check_snapshot(b_, *snapshot_b);
    if (!snapshot_a || !snapshot_b) return say("there are not two snapshots to compare");
    if (snapshot_a->version != snapshot_b->version) {
      return say("the newest snapshots are of different versions: their numbers are not compared");
    }
    const std::string which = "the snapshots of version " + std::to_string(snapshot_a->version);
    if (const auto where = first_difference(*snapshot_a, *snapshot_b)) {
      return differ(which + " differ first in " + *where);
    }
    say(which + " are equal bit for bit");
  }

  void check_snapshot(const Region& region, const SnapshotLeaves& snapshot) {
    const auto agreed = agreed_states(region);
    const std::string* state = find(agreed, snapshot.version);
    if (state == nullptr || *state == diloco::to_hex(snapshot.state)) return;
    differ(region.name + ": its snapshot of version " + std::to_string(snapshot.version) +
           " is not the agreed state");
  }

  Region a_, b_;
  Verification result_;
};

}  // namespace

Verification verify(const fs::path& a, const fs::path& b, const fs::path& certificates) {
  return Verifier(open_region(a), open_region(b)).run(certificates);
}

}  // namespace causeway::run
