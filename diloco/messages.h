// What coordinators say to each other, as plain values. Every message may be repeated or arrive
// late: none is an instruction, each is a statement of what its sender knows, so losing one costs
// time and never agreement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "diloco/record.h"

namespace causeway::diloco {

// Anchor and outer momentum of one version, as opaque bytes.
struct Snapshot {
  Round version = 0;
  Digest state{};
  inter::BlobId blob;
  bool operator==(const Snapshot&) const = default;
};

// The state that a region's worker holds.
struct Applied {
  Round version = 0;
  Digest state{};
  bool operator==(const Applied&) const = default;
};

// Where the sender stands. Sent when a link comes up and whenever it changes.
struct Status {
  Round version = 0;               // records in the sender's ledger
  std::optional<Applied> applied;  // by its worker, when known
  Round payloads_from =
      0;  // the sender holds every listed payload of rounds [payloads_from, version)
  std::optional<Snapshot> snapshot;
  std::uint64_t received_bytes = 0;  // of what it is fetching: grows while it makes progress
  bool operator==(const Status&) const = default;
};

// The sender knows this contribution and holds `received_bytes` of its payload. From the
// contributor itself it is the announcement.
struct Holding {
  Contribution contribution;
  std::uint64_t received_bytes = 0;
  bool pushing = false;  // the payload is on its way to the receiver: no need to ask for it
};

// Commit records of rounds first, first + 1, ...: a new decision, or an answer to NeedRecords.
struct Records {
  Round first = 0;
  std::vector<CommitRecord> records;
};

struct NeedRecords {
  Round from = 0;
};

// From the decider: the receiver's state of version `round` is not the agreed one.
struct Diverged {
  Round round = 0;
  Digest state{};
};

// From the decider: every region that could be waited for has the last version.
struct Finished {};

using Message = std::variant<Status, Holding, Records, NeedRecords, Diverged, Finished>;

std::string serialize(const Message& message);
// Untrusted bytes: throws std::system_error (Errc::malformed) with what is wrong.
Message parse_message(const std::string& bytes);

}  // namespace causeway::diloco
