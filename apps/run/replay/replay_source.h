// What a run left that a replay of it reads: the records, what regions signed, the payloads, and
// states to begin from (docs/audit.md).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/verify/kept_payloads.h"
#include "apps/run/verify/region_ledger.h"
#include "apps/run/verify/signed_states.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/log/membership.h"
#include "diloco/maths/layout.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

class ReplaySource {
 public:
  // `paths`, `certificates`: as verify() has them. `overrides`: of the configuration that was kept.
  // Throws diloco::Errc::lineage saying what is missing, damaged, not signed, or not one history.
  ReplaySource(const std::vector<std::filesystem::path>& paths,
               const std::filesystem::path& certificates,
               const std::vector<std::string>& overrides);
  // With another configuration than a region kept: what `choose` makes of the directories, by
  // region.
  using ChooseConfig = std::function<Config(const std::map<std::string, std::filesystem::path>&)>;
  ReplaySource(const std::vector<std::filesystem::path>& paths,
               const std::filesystem::path& certificates, const ChooseConfig& choose);

  const Config& config() const { return config_; }
  const std::string& run_id() const { return ledgers_.front().run_id; }
  // Rounds in the ledger; that of round t is record(t).
  diloco::Round rounds() const { return records_.size(); }
  const diloco::CommitRecord& record(diloco::Round round) const { return *records_[round]; }
  bool signatures_checked() const { return !own_.empty(); }
  // Of the entry that holds record(round) and of all before it.
  diloco::Digest history_hash(diloco::Round round) const;
  // Who shared the data of the first rounds.
  const diloco::Membership& first_members() const;
  // Of the regions that were named, by name.
  std::map<std::string, std::filesystem::path> directories() const;

  // Regions that signed this state of this version, and those that signed another one.
  struct Signers {
    std::vector<std::string> same, other;
  };
  Signers signers(diloco::Round version, const diloco::Digest& state) const;

  // Files with anchor and momentum of a version.
  const std::multimap<diloco::Round, std::filesystem::path>& states() const { return states_; }
  diloco::Layout layout() const;
  // That of the highest version up to `version` that is the agreed one. Throws if there is none.
  void begin(diloco::Round version, const diloco::Layout& layout, intra::OuterState& state) const;

  // What record(round) needs to be applied (applied_payloads.h), in that order, each checked
  // against its hash. Any thread may ask.
  std::vector<diloco::MappedBytes> payloads(diloco::Round round) const;

 private:
  ReplaySource(std::vector<RegionLedger> ledgers, const std::filesystem::path& certificates,
               const std::function<Config(const std::vector<RegionLedger>&)>& config_of);
  void check_history() const;
  void find_states();
  std::string versions_kept() const;

  std::vector<RegionLedger> ledgers_;  // the longest first
  std::vector<const diloco::CommitRecord*> records_;
  std::map<std::string, SignedStates> own_;  // by region; empty: not checked
  KeptPayloads kept_;
  Config config_;
  std::multimap<diloco::Round, std::filesystem::path> states_;
};

}  // namespace causeway::run
