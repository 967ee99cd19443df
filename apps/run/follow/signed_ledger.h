// What a follower knows of a run, on disk as a region has it: the entries of the ledger, of which
// it takes none in that not most regions have signed.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diloco/follow/follow_messages.h"
#include "diloco/ledger/ledger.h"
#include "diloco/log/membership.h"
#include "diloco/log/record.h"
#include "inter/tls/tls.h"

namespace causeway::run {

// Entries that were told and are not taken in yet, with the chain of hashes over them.
struct ToldEntries {
  std::string run_id;
  std::vector<diloco::LogEntry> entries;  // none once hashes_alone
  std::vector<diloco::Digest> hashes;     // of each
  std::uint64_t known = 0;                // entries that whoever told has, with those before
  bool hashes_alone = false;              // too few sign a part of so many

  std::uint64_t size() const { return hashes.size(); }
};

class SignedLedger {
 public:
  using Signatures = std::map<std::string, diloco::SignedHead>;  // by region
  static constexpr std::uint64_t kToldMax = 8192;                // some 20 MB, with three regions
  static constexpr std::uint64_t kHashesMax = 1ULL << 22U;       // 134 MB
  static constexpr diloco::Round kBeforeState = 4096;

  // Opens or creates `directory`/ledger, with the signatures in ledger/heads. `trusted`: whose
  // signatures count; `needed`: of how many. What a disk has damaged is thrown away and fetched
  // again. `version`: of the state that is kept beside it; 0: there is none. Much earlier records
  // are of no use.
  SignedLedger(std::filesystem::path directory, std::vector<std::string> trusted,
               std::size_t needed, diloco::Round version = 0);

  const std::string& run_id() const { return ledger_->run_id(); }  // empty: not known yet
  std::uint64_t entries() const { return ledger_->committed(); }
  const diloco::Digest& head() const { return ledger_->head(); }
  const std::vector<std::string>& trusted() const { return trusted_; }
  std::size_t needed() const { return needed_; }

  // Adds the answer's entries, which must follow ours and those in `told`, and be those that are
  // expected, if any are; none after these. Throws inter::LinkError if they are not, or if they are
  // too many for anybody to keep in mind without signatures.
  void add(ToldEntries& told, const diloco::FollowerAnswer& answer) const;
  bool are_all(const ToldEntries& told) const { return entries() + told.size() >= told.known; }
  // Of a long run there are more than are to be in memory.
  bool are_to_be_taken(const ToldEntries& told) const {
    return are_all(told) || (told.size() >= kToldMax && !told.hashes_alone) ||
           (are_expected(told) && expected_.size() == told.size());
  }
  // Enough signed the last of these, and nobody one before it: they are told once more, and each is
  // known by its hash. So a liar whose entries nobody signed fills no memory.
  void expect(const ToldEntries& told, Signatures signatures);
  bool are_expected(const ToldEntries& told) const { return told.size() > 0 && !expected_.empty(); }
  // Who signed all of `told`, and no more, by what `answer` says: by region. Throws
  // inter::LinkError if the answer's history is another one, or one that it says is signed is not.
  Signatures signers(const ToldEntries& told, const diloco::FollowerAnswer& answer,
                     const inter::TlsContext& context) const;
  bool enough(const Signatures& signatures) const { return signatures.size() >= needed_; }
  // They are the run's. On disk when this returns.
  void take(const ToldEntries& told, Signatures signatures);
  void take_expected(const ToldEntries& told);

  // Of the last entry that was taken in.
  const Signatures& signatures() const { return signatures_; }
  const diloco::Membership& members() const { return members_; }
  diloco::Round rounds() const { return rounds_; }  // records that stand
  // That of round `round`, if it stands and is not forgotten; null otherwise.
  const diloco::CommitRecord* record(diloco::Round round) const;
  // Of rounds that are still to come, too.
  void forget_before(diloco::Round round);
  // A region says that a state of this version is there to begin with. Some earlier records stay,
  // as another region may have an earlier one; and as it may lie, so do the newest of those that
  // are agreed, whatever it says.
  void forget_long_before(diloco::Round version);
  // For whoever follows this follower.
  void offer(const diloco::Snapshot& snapshot) { ledger_->save(snapshot); }
  void finish(diloco::Round version, const diloco::Digest& state) {
    ledger_->save_finished(version, state);
  }
  // How often the run took records back, and the lowest round that it did so for since the last
  // call: states of later versions are void.
  std::optional<diloco::Round> take_back();

 private:
  diloco::Digest hash_before(const std::string& run_id, const ToldEntries& told,
                             std::uint64_t at) const;
  void apply(const diloco::LogEntry& entry);

  std::filesystem::path directory_;
  std::vector<std::string> trusted_;
  std::size_t needed_;
  std::optional<diloco::Ledger> ledger_;
  Signatures signatures_;
  std::deque<diloco::Digest> expected_;  // the hashes of the next entries
  Signatures signed_expected_;           // of the last of these
  diloco::Membership members_;
  std::map<diloco::Round, diloco::CommitRecord> records_;
  diloco::Round from_;  // the first that is kept
  diloco::Round rounds_ = 0;
  std::uint32_t revision_ = 0;
  std::optional<diloco::Round> taken_back_;
};

}  // namespace causeway::run
