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
    if (entry.own &&
        !key.verify(diloco::signed_content(entry.hash, *entry.own), entry.own_signature)) {
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

// Signed with the hash of what was then the last entry.
std::optional<diloco::Applied> signed_finish(const RegionLedger& ledger,
                                             const inter::VerifyingKey& key) {
  const auto finished = diloco::read_finished(ledger.directory / "ledger");
  if (!finished) return std::nullopt;
  for (auto entry = ledger.entries.rbegin(); entry != ledger.entries.rend(); ++entry) {
    if (key.verify(diloco::signed_content(entry->hash, finished->at), finished->signature))
      return finished->at;
    if (record_in(*entry) != nullptr) break;
  }
  return std::nullopt;
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
  states.finished = signed_finish(ledger, key);
  return states;
}

}  // namespace causeway::run
