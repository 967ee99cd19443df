// The worker API: how a training loop takes part in a run. Blocking calls, one thread, every wait
// with a deadline or a progress callback.
//
// - attach: every rank of the region connects to its coordinator. The call returns
//   when all ranks of the region are there, or without those that are missing for too long;
//   `generation` names this gathering, so that a collective group can be formed under a fresh name.
// - Rank 0 then drives rounds; the other ranks follow it through the region's own collective and
//   only keep their session open (a lost session of any rank ends the gathering: re-attach).
// - Rank 0: next() says what to do: apply a commit (catching up), restore a snapshot, train round
//   t, train on while nothing can be decided, collect what that did, or finish.
//
// Bulk bytes cross as memfds or files passed over the socket, or inside the TLS connection if the
// coordinator is on another host; the coordinator never looks inside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "diloco/files/sealed_bytes.h"
#include "diloco/log/messages.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"
#include "diloco/worker/worker.pb.h"

namespace causeway::diloco {

struct AttachRequest {
  std::filesystem::path socket;  // the coordinator's, on this host
  std::string region;
  std::uint32_t rank = 0;   // as configured
  std::uint32_t world = 1;  // ranks that the region is to have
  Round version = 0;        // version of the anchor held
  Digest state{};           // its state digest
  bool has_lineage =
      false;           // false: fresh weights, may only receive unless the run is at version 0
  std::string run_id;  // empty when has_lineage is false
  bool contributed = false;  // a contribution for round `version` was already made with this state
  // Steps for round `version` that no contribution holds, or a contribution that the coordinator
  // has not said to have stored.
  bool open_work = false;
  // HOST:PORT of a coordinator on another host, instead of `socket`; over mutual TLS with the
  // region's own certificate, from a directory made by `causeway certs`.
  std::string coordinator = {};
  std::filesystem::path certificates = {};
  // This process was attached before: files of certificates that cannot be used now could be then,
  // and are waited for.
  bool again = false;
  // "key = value" lines of what this worker was configured with and must share with its
  // coordinator, which refuses it if they differ. Empty: a trainer with settings of its own.
  std::string settings = {};
  DataDigests data = {};
  // What of_region was when the state held was trained; none: not known, or no steps were taken.
  std::optional<DataDigest> trained_on = {};
  NamedTensors tensors = {};  // of a program of its own; empty: nothing is compared
  // Likewise: rounds, of every fragment, between its snapshots. 0: not said.
  std::uint32_t save_rounds = 0;
  // Sessions in a row that ended before anything was done. From the second on, attaching begins
  // with a pause, which grows with them.
  std::uint32_t sessions_lost = 0;
};

struct Attachment {
  std::string generation;
  std::string run_id;
  // The coordinator has this region's contribution for the version attached with: expect no Train
  // for that round, only its outcome. It may differ from what the request said. True there, false
  // here: it was lost; Train comes again. False there, true here: an earlier life of this worker
  // made it, and what it left in the residual is not known: residual <- 0.
  bool contributed = false;
  // What all regions of the run share, as TOML lines with dotted keys: codec.matrix = "..."
  std::string settings = {};
  // In this gathering. Ranks that are missing are left out: the world may be smaller than the
  // region's, and the others move up.
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  // Offer a snapshot of version 0 when joining: other regions may have to begin with it.
  bool offers_initial = false;
  // Offer the newest snapshot again if its version is at least this; 0: none is wanted.
  Round snapshot_from = 0;
};

// What rank 0 must do next is one of Train and Continue (train.h) and these.

// contribute() what was done since the last contribution, as the next part of the round; nothing if
// nothing was done.
struct Collect {
  Round round;
};
struct Apply {
  CommitRecord record;
  std::vector<MappedBytes> payloads;
};  // of applied_blobs(record)
struct Restore {
  Round version;
  Digest state;
  MappedBytes snapshot;  // empty: the initial weights
};                       // adopt this state; residual <- 0
struct Finish {
  Round version;
};  // the run is over
using Instruction = std::variant<Train, Continue, Collect, Apply, Restore, Finish>;

// The phase of a Progress once the result is written. The coordinator waits until it is reported:
// a session that ends without it is one of a worker that died before.
inline constexpr const char* kPhaseDone = "done";

// What a region shows of itself while it works; best effort, for displays. worker.proto says what
// each figure is.
using Progress = worker_wire::Progress;

class WorkerSession {
 public:
  // Retries with back-off while the coordinator is not there. `keep_waiting` is called at least
  // every second with a sentence that says what is being waited for; returning false cancels
  // (throws std::system_error, operation_canceled).
  using KeepWaiting = std::function<bool(const std::string& what)>;
  // That sentence begins so while no coordinator answers.
  static constexpr std::string_view kNobodyAnswers = "the coordinator at ";
  static std::unique_ptr<WorkerSession> attach(const AttachRequest& request,
                                               const KeepWaiting& keep_waiting);

  virtual ~WorkerSession() = default;
  virtual const Attachment& attachment() const = 0;

  // Rank 0 only. Blocks until there is something to do. Throws std::system_error
  // (Errc::coordinator_lost) when the session ended: attach again.
  // `steps`: that were taken since the version held, contributed or not; a region that is cut off
  // is told to take no more than the run has.
  virtual Instruction next(const KeepWaiting& keep_waiting, std::uint32_t steps = 0) = 0;

  // Rank 0 only, during a Continue: true once there is something else to do. Never blocks. Throws
  // Errc::coordinator_lost.
  virtual bool called_back() = 0;

  // Rank 0 only. Hands over the payload, none if it sits out; true when the coordinator has it on
  // disk. False: it has no room. Keep the contribution: if next() says to train the same round
  // again, contribute it again; if it gives the round's outcome, nothing of it is listed.
  // contribution.payload is ignored: the coordinator hashes what it got.
  bool contribute(const Contribution& contribution, const SealedBytes& payload) {
    hand_over(contribution, payload);
    return await_stored();
  }
  // The two halves of contribute(), for who has something to do in between; nothing but report()
  // and data_read() may be called there.
  virtual void hand_over(const Contribution& contribution, const SealedBytes& payload) = 0;
  virtual bool await_stored() = 0;

  // Rank 0 only. After Apply or Restore: the version now held, and its digest.
  virtual void applied(Round version, const Digest& state) = 0;

  // Rank 0 only. Offers a snapshot file (anchor and outer momentum of `version`) for joiners; the
  // coordinator copies it in its own time, so that the file may be removed or replaced, but not
  // written to.
  virtual void offer_snapshot(Round version, const Digest& state,
                              const std::filesystem::path& file) = 0;

  // Rank 0 only. Never blocks; may be dropped.
  virtual void report(const Progress& progress) = 0;

  // Any rank: it has read all of its data since it attached. A coordinator that refuses the data
  // ends the session.
  virtual void data_read(const DataDigests& data) = 0;

  // True if the session's socket has been closed by the other side (cheap poll, for ranks other
  // than 0).
  virtual bool lost() = 0;
};

}  // namespace causeway::diloco
