// A region's directory as an auditor reads it: the committed log and the region's signatures. What
// is not under the hash chain or a signature (events.jsonl, status.json) is not read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diloco/files/sealed_bytes.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::run {

struct RegionLedger {
  std::filesystem::path directory;
  std::string name;  // as the log's members have it; the directory's own if none of them is here
  std::string run_id;
  std::vector<diloco::LedgerEntry> entries;
  std::size_t torn_bytes = 0;  // of a last entry that was being written, or is damaged
};

// It is a run's directory, or a copy of one, and not a region's. That of `causeway simulate` has a
// link to a region's ledger beside its regions/.
bool stands_for_all_regions(const std::filesystem::path& path);

// Of each path, which is a region's directory or a run's with such in its regions/ or in itself:
// the regions'. Throws std::system_error (diloco::Errc::lineage) saying what to name if it is
// neither, or if one comes twice.
std::vector<std::filesystem::path> region_directories(
    const std::vector<std::filesystem::path>& paths);

// Throws Errc::lineage naming the file if there is no ledger, if it has no entries, or if it is
// damaged.
RegionLedger read_region_ledger(const std::filesystem::path& region_directory);

// Those of `paths`, of one run. Throws as the above do, and if they are of several runs.
std::vector<RegionLedger> read_region_ledgers(const std::vector<std::filesystem::path>& paths);

// The certificates of a run of `causeway simulate`, beside the regions; empty: there are none.
std::filesystem::path certificates_beside(const std::filesystem::path& region_directory);

// Null: it is a membership, or the first entry of a leader.
const diloco::CommitRecord* record_in(const diloco::LedgerEntry& entry);

// The records that stand, that of round t at place t, and those that took contributions out of a
// round again: each voided what had been agreed on from that round on.
struct Records {
  std::vector<const diloco::CommitRecord*> standing;
  struct Withdrawal {
    diloco::Round round = 0;
    std::size_t entry = 0;  // its place in the ledger
  };
  std::vector<Withdrawal> withdrawals;
};
// Throws Errc::lineage if one is out of its place, or takes back what it must not.
Records read_records(const RegionLedger& ledger);
// "entry 12 (round 9: eu-west us-east)"
std::string describe(const diloco::LedgerEntry& entry, std::size_t index);

// What a region put its signature under: the entries of its ledger, the states that it contributed
// from, and the one at which it finished. What is not signed, or not by this region, is not told.

using States = std::map<diloco::Round, diloco::Digest>;  // by version

struct SignedStates {
  std::string problem;  // the first signature that is not the region's; empty: all are
  // What it contributed from, against the state that the records agree on. A wrong one is healed
  // if the right one of that version, or of a higher one, came after it.
  States right, healed, wrong;
  std::optional<diloco::Applied> finished;  // the last version, and its state there
  std::string finish_problem;  // why ledger/finished is not taken for that; empty: there is none
};

// The state that the records agree on for each version, as far as there are records.
States agreed_states(const Records& records);

// `records`: of this ledger or of a longer one. `certificates`: of the run, the region's among
// them. Throws std::system_error naming the file if that cannot be read.
SignedStates signed_states(const RegionLedger& ledger, const Records& records,
                           const std::filesystem::path& certificates);

// A file that is not the blob of its name, as a sentence.
std::string describe_damage(const std::filesystem::path& file, const inter::BlobId& blob);

// The payloads that regions of a run still have, in spool/ and archive/ of their directories.
class KeptPayloads {
 public:
  explicit KeptPayloads(std::vector<std::filesystem::path> region_directories)
      : regions_(std::move(region_directories)) {}

  // Every file of that name, read: how many have the content, which do not, and why others could
  // not be read.
  struct Copies {
    std::size_t good = 0;
    std::vector<std::filesystem::path> damaged;
    std::vector<std::string> unread;
  };
  Copies copies(const inter::BlobId& payload) const;
  // The first of them whose content has the hash. None: there is no file. Throws
  // diloco::Errc::lineage naming the file if there are only damaged ones.
  std::optional<diloco::MappedBytes> open(const inter::BlobId& payload) const;

 private:
  std::vector<std::filesystem::path> files(const inter::BlobId& payload) const;

  std::vector<std::filesystem::path> regions_;
};

}  // namespace causeway::run
