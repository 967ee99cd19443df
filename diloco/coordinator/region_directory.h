// A region's own directory: which run it belongs to, and what the coordinator keeps in it.
#pragma once

#include <optional>
#include <string>

// Before any Asio header, for the reason that spool_copy.h gives.
#include "inter/blob/spool.h"

#include "diloco/coordinator/coordinator.h"
#include "diloco/coordinator/status_files.h"
#include "diloco/ledger/ledger.h"
#include "diloco/round/round_protocol.h"
#include "inter/tls/signature.h"

namespace causeway::diloco {

class RegionDirectory {
 public:
  // `options` must outlive it.
  explicit RegionDirectory(const CoordinatorOptions& options) : options_(options) {}

  // Before anything else. Founding, joining and resuming are explicit: returns why the region
  // cannot take part like this; none if it can. Throws std::system_error.
  std::optional<RunOutcome> open();
  // Whoever starts this region again may open the directory from here on.
  void close() { ledger_.reset(); }

  Ledger& ledger() { return *ledger_; }
  inter::Spool& spool() { return *spool_; }
  const inter::Spool& spool() const { return *spool_; }
  // If the disk has no room for any of these: a clause that says so, and what to do; without names,
  // as it stands in what the region waits for. Empty if it has.
  std::string lacking_room(const std::vector<inter::BlobId>& wanted) const;
  StatusFiles& files() { return *files_; }

  ProtocolOptions protocol_options() const;
  PersistentState state() const;
  // What another region promised in a directory, this one must not go on with. Throws
  // Errc::lineage.
  void refuse_if_anothers(const Membership& membership) const;

  // What the protocol wants on disk is there when these return.
  void carry_out(const RemoveBlob& action);
  void carry_out(const SaveContributions& action);
  void carry_out(const SaveSnapshot& action);
  void save(const SaveRaft& action, bool leads);
  void append(const AppendLedger& action, const std::optional<Contribution>& newest_own);

  // Whether the disk has room for so many bytes and takes a megabyte now.
  bool takes_bytes(std::uint64_t bytes) const;

 private:
  std::optional<RunOutcome> open_ledger();
  bool is_founded_and_not_begun() const;
  void found_run();
  // Refuses those with which the run's records cannot be applied again.
  std::optional<RunOutcome> keep_settings() const;

  const CoordinatorOptions& options_;
  std::optional<inter::SigningKey> signing_key_;
  std::optional<Ledger> ledger_;
  std::optional<inter::Spool> spool_;
  std::optional<StatusFiles> files_;
};

}  // namespace causeway::diloco
