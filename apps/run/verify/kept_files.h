// What `causeway verify` finds in the files that regions keep beside their ledgers: snapshots,
// training states, payloads, models.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/run/verify/named_snapshot.h"
#include "apps/run/verify/region_ledger.h"
#include "apps/run/verify/signed_states.h"
#include "apps/run/verify/verify.h"
#include "diloco/files/error.h"
#include "intra/base/error.h"

namespace causeway::run {

// What an audit comes to, line by line, while it goes on.

class Findings {
 public:
  void say(const std::string& line) { result_.lines.push_back(line); }
  // Two things that cannot both be as they are.
  void differ(const std::string& line) {
    result_.same = false;
    say(line);
  }
  // Something that should be there, or be signed, and is not.
  void lack(const std::string& line) {
    result_.complete = false;
    say("MISSING: " + line);
  }
  // Something that may be whole.
  void not_read(const std::string& line) {
    result_.all_read = false;
    say("UNREAD: " + line);
  }
  void cover(const std::string& what, const std::string& how) {
    result_.covered.push_back(what + ": " + how);
  }
  // Whether `read` does not throw. It may tell of damage, which is no finding if `excused`.
  template <typename Read>
  bool reads(
      const std::string& owner, const Read& read,
      const std::function<bool()>& excused = [] { return false; }) {
    try {
      read();
      return true;
    } catch (const intra::UnreadableFile& error) {
      not_read(owner + ": " + intra::message_of(error));
      return false;
    } catch (const std::system_error& error) {
      const bool damaged = error.code() == intra::Errc::bad_checkpoint ||
                           error.code() == make_error_code(diloco::Errc::lineage);
      if (!damaged) throw;
      if (!excused()) differ(owner + ": " + intra::message_of(error));
      return false;
    }
  }
  Verification take() { return std::move(result_); }

 private:
  Verification result_;
};

inline std::string version_words(diloco::Round version) {
  return fmt::format("version {}", version);
}

// "1 version", "2 versions"
inline std::string count(std::size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// The regions that are audited together, and what their records and signatures agree on.

struct AuditedRegion {
  RegionLedger ledger;
  Records records;  // of a ledger that stays where it is
  States agreed;
  std::optional<SignedStates> own;  // none: signatures are not checked
  std::optional<SnapshotLeaves> snapshot;

  const std::string& name() const { return ledger.name; }
};

struct History {
  std::vector<AuditedRegion> regions;
  const AuditedRegion* longest = nullptr;    // what the others are held against
  std::optional<diloco::Digest> last_state;  // after the last record, as those say that finished

  diloco::Round rounds() const { return longest->agreed.size(); }
  // Null: nobody signed which state of that version is the right one.
  const diloco::Digest* state_of(diloco::Round version) const {
    const auto agreed = longest->agreed.find(version);
    if (agreed != longest->agreed.end()) return &agreed->second;
    return version == rounds() && last_state ? &*last_state : nullptr;
  }
  // By a record that the region has not heard of.
  bool was_taken_back(const AuditedRegion& region, diloco::Round version) const {
    return std::ranges::any_of(longest->records.withdrawals, [&](const auto& one) {
      return one.entry >= region.ledger.entries.size() && version > one.round;
    });
  }
  bool is_over() const { return last_state.has_value(); }
};

// `runs`: those of the paths with regions/ in them, whose own model is looked at too.
void check_kept_files(History& history, const std::vector<std::filesystem::path>& runs,
                      Findings& findings);

}  // namespace causeway::run
