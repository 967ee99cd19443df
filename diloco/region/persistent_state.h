// What a coordinator reads from disk.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/messages.h"

namespace causeway::diloco {

// What is on disk when a coordinator starts.
struct PersistentState {
  std::string run_id;  // empty: a joiner that has not met the run yet
  RaftState raft;
  // This region's own: all that are neither listed nor expired, and the newest.
  std::vector<Contribution> contributions;
  std::optional<Snapshot> snapshot;
  std::optional<Applied> finished;  // what the worker was told to finish at
  std::set<inter::BlobId> blobs;    // complete ones
};

}  // namespace causeway::diloco
