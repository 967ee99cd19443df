// What every run must keep to, checked as it happens: one history, nothing acknowledged lost,
// payloads that survive what is tolerated, every sample counted once. Throws Violation.
#pragma once

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "diloco/log/raft.h"

namespace causeway::diloco::testing {

class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class History {
 public:
  // `contributions_min`: regions that a round needs; 0: most, together with the witnesses.
  explicit History(std::size_t contributions_min) : contributions_min_(contributions_min) {}
  void made(const Contribution& contribution);
  void summed(const inter::BlobId& sum, Round round);
  // `region` has entry `index` on disk as committed. `copies`: disks that have it; `holders`: by
  // payload, regions that have it on disk.
  struct Evidence {
    std::size_t copies = 0;
    Membership newest;                           // in its log, committed or not: decides as well
    std::set<std::string> disks;                 // incarnations that still are
    std::map<std::string, std::size_t> holders;  // hexadecimal hash
  };
  void committed(const std::string& region, Index index, const LogEntry& entry,
                 const Evidence& evidence);

  const std::vector<CommitRecord>& records() const { return records_; }
  std::uint32_t revision() const { return revision_; }
  Index index_of(Round round) const { return round == 0 ? 1 : indices_[round]; }  // of its record
  bool is_payload(const inter::BlobId& blob) const { return made_.contains(blob); }
  std::string describe(const inter::BlobId& payload) const;
  // Whether a region at `version` has a use for it: it is listed from round `from` on, or may be.
  bool needs(const inter::BlobId& payload, Round from, Round version) const;
  const Membership& membership() const { return membership_; }

 private:
  struct Samples {
    std::string region;
    std::uint64_t begin = 0, end = 0;
    Round round = 0;
  };
  static std::size_t copies_needed(const Membership& membership, const Evidence& evidence);
  void check_record(const CommitRecord& record, const Evidence& evidence);
  void check_withdrawal(const CommitRecord& record) const;
  void replace(const CommitRecord& record);
  void take(const CommitRecord& record);
  void check_k(const KDecision& decision);
  void check_samples(const Participant& participant);

  std::size_t contributions_min_;
  std::vector<std::string> log_;  // serialized
  std::vector<CommitRecord> records_;
  std::uint32_t revision_ = 0;
  std::map<ContributionKey, std::set<inter::BlobId>> withdrawn_;  // with the payloads
  std::vector<Index> indices_;                                    // of their entries
  Membership membership_;
  std::uint32_t k_ = 0;  // as last decided; 0: never
  std::map<inter::BlobId, Samples> made_;
  std::set<ContributionKey> listed_;
  std::map<inter::BlobId, Round> listed_in_;
  std::map<std::string, std::vector<Samples>> counted_;
};

std::string serialize(const LogEntry& entry);

}  // namespace causeway::diloco::testing
