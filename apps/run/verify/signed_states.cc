#include "apps/run/verify/signed_states.h"

#include <algorithm>
#include <vector>

#include "diloco/ledger/ledger.h"
#include "inter/tls/pki.h"
#include "inter/tls/signature.h"

namespace causeway::run {
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

void sort_states(const RegionLedger& ledger, const States& agreed, SignedStates& states) {
  diloco::Round right_below = 0;  // versions that a right state came after
  for (auto entry = ledger.entries.rbegin(); entry != ledger.entries.rend(); ++entry) {
    const auto right = entry->own ? agreed.find(entry->own->version) : agreed.end();
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
  for (const diloco::LedgerEntry& entry : ledger.entries) {
    if (record_in(entry) != nullptr) ++version;
    if (version == finished.at.version &&
        key.verify(diloco::signed_content(entry.hash, finished.at), finished.signature))
      return true;
  }
  return false;
}

void add_finish(const RegionLedger& ledger, const inter::VerifyingKey& key, SignedStates& states) {
  const auto finished = diloco::read_finished(ledger.directory / "ledger");
  if (!finished) return;
  const std::string version = "version " + std::to_string(finished->at.version);
  if (finished->at.version > records_in(ledger).size()) {
    states.finish_problem = "its ledger/finished says that it ended at " + version +
                            ", but its ledger ends at version " +
                            std::to_string(records_in(ledger).size()) + ": records are missing";
  } else if (is_signed_finish(ledger, key, *finished)) {
    states.finished = finished->at;
  } else {
    states.finish_problem =
        "its ledger/finished, of " + version + ", is not signed by its certificate for its ledger";
  }
}

}  // namespace

States agreed_states(const RegionLedger& ledger) {
  States states;
  for (const diloco::CommitRecord* record : records_in(ledger))
    states[record->round] = record->state;
  return states;
}

SignedStates signed_states(const RegionLedger& ledger, const States& agreed,
                           const std::filesystem::path& certificates) {
  const inter::VerifyingKey key(inter::credentials_in(certificates, ledger.name).certificate);
  SignedStates states;
  states.problem = first_unsigned(ledger, key);
  if (!states.problem.empty()) return states;
  sort_states(ledger, agreed, states);
  add_finish(ledger, key, states);
  return states;
}

}  // namespace causeway::run
