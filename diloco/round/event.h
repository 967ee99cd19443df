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
  std::string via = {};  // the third region that carries messages; empty: a direct link
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
  std::optional<DataDigest> common_data = {};  // that all regions must have
  NamedTensors tensors = {};                   // of a program; empty: not told
};
struct WorkerReadData {  // all of it, after it attached
  DataDigest common_data;
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
// What CheckSnapshot asked for. Wrong: its bytes are not the state that was announced.
struct SnapshotChecked {
  Snapshot snapshot;
  bool right = false;
};
struct RoomNeeded {
  std::uint64_t bytes = 0;
};  // for what the worker made: there is no room for it
struct OperatorAsked {
  ChangeMember change;
};
struct Tick {};  // time passed
using Event = std::variant<RunIdLearned, PeerUp, PeerDown, PeerSaid, BlobArrived, BlobProgress,
                           BlobLost, BlobAbsent, WorkerAttached, WorkerReadData, WorkerLost,
                           WorkerReady, WorkerContributed, WorkerApplied, WorkerOffered,
                           SnapshotChecked, RoomNeeded, OperatorAsked, Tick>;

}  // namespace causeway::diloco
