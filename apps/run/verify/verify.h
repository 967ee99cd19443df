// Whether regions ran the same history, by what they signed: their ledgers entry by entry, the
// states that they contributed from, the payloads that they still have, their snapshots and
// training states, and the model at the end. Verified means that nothing contradicts, and that
// nothing that should be there is missing, unread or unsigned.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace causeway::run {

struct Verification {
  bool same = true;                  // nothing contradicts anything else
  bool complete = true;              // nothing is missing or unsigned
  bool all_read = true;              // no file was refused by the disk, or to this user
  std::vector<std::string> lines;    // what was compared and found, for people
  std::vector<std::string> covered;  // a line for each kind of thing that a run leaves

  bool verified() const { return same && complete && all_read; }
};

// `paths`: of regions, or of runs with regions in them. `certificates`: the directory of `causeway
// certs`, to check signatures with; empty: that beside the regions, or no signature is checked, and
// nothing is told that only a signature makes true: the verification is not complete then. Throws
// std::system_error (diloco::Errc::lineage) if a ledger is missing, empty or damaged, or if they
// are of several runs.
Verification verify(const std::vector<std::filesystem::path>& paths,
                    const std::filesystem::path& certificates);

}  // namespace causeway::run
