// What a coordinator tells the round protocol: something happened.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "diloco/log/messages.h"

namespace causeway::diloco {

struct RunIdLearned {
  std::string run_id;
};
struct PeerUp {
  std::string peer;
  std::string incarnation;
};
struct PeerDown {
  std::string peer;
};
struct PeerSaid {
  std::string peer;
  Message message;
};
struct BlobArrived {
  inter::BlobId blob;
};
struct BlobProgress {
  inter::BlobId blob;
  std::uint64_t received_bytes = 0;
};  // of a blob in wanted()
// Its copy in the spool was found to be damaged, and was removed.
struct BlobLost {
  inter::BlobId blob;
};
// The peer was asked for it, and does not have it.
struct BlobAbsent {
  std::string peer;
  inter::BlobId blob;
};
struct WorkerAttached {
  Applied holds;
  bool has_lineage = false;
  std::string run_id;
  std::optional<Digest> common_data = {};  // as in AttachRequest
};
struct WorkerLost {};
struct WorkerReady {};  // it asks what to do
struct WorkerContributed {
  Contribution contribution;
};  // its payload is on disk
struct WorkerApplied {
  Applied holds;
};
struct WorkerOffered {
  Snapshot snapshot;
};  // its blob is on disk
struct OperatorAsked {
  ChangeMember change;
};
struct Tick {};  // time passed
using Event = std::variant<RunIdLearned, PeerUp, PeerDown, PeerSaid, BlobArrived, BlobProgress,
                           BlobLost, BlobAbsent, WorkerAttached, WorkerLost, WorkerReady,
                           WorkerContributed, WorkerApplied, WorkerOffered, OperatorAsked, Tick>;

}  // namespace causeway::diloco
