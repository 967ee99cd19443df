#include "apps/run/verify/signed_states.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "diloco/ledger/ledger_files.h"
#include "diloco/log/withdraw.h"
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

}  // namespace causeway::run
