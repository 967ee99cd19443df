// What this region's worker hands over: its contributions and snapshots, copied into the spool
// while everything else goes on.
//
// A full spool: the disk works, so the region stays in the run: what it agrees on lets go of older
// payloads, and that makes room. Some of them only when the worker has applied what was decided, so
// the worker is not held up: it keeps its contribution and asks what to do. The answer is the same
// round once more as soon as there is room, or the round's outcome. A snapshot waits for room as
// well: once it is stored, older payloads can go.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <asio/thread_pool.hpp>

#include "diloco/coordinator/coordinator_context.h"
#include "diloco/files/file_io.h"
#include "inter/base/async.h"

namespace causeway::diloco {

class ContributionIntake {
 public:
  using Answer = std::function<void(bool stored)>;

  // `answer` tells the worker whether its contribution is on disk.
  ContributionIntake(CoordinatorContext context, Answer answer);

  // The ranks gathered anew. Those who gathered were told what is not here: they hand over again
  // what an earlier gathering did.
  void begin_gathering();
  void take(const Contribution& contribution, Descriptor payload);
  void take_snapshot(Applied holds, Descriptor file);
  // Of the payload that was handed over last, stored or not; 0: none was.
  std::uint64_t payload_bytes() const { return payload_bytes_; }

  // ---- A full spool ----
  bool waits_for_room() const { return waits_for_room_.has_value(); }
  void ask();  // the worker asks what to do; it is told when there is an answer
  void worker_lost();
  void look_for_room();
  // Room does not matter any more; true if the worker asks what to do.
  bool stop_waiting();
  // One sentence, if the worker asks; else empty.
  std::string waiting_for() const;

  bool copies() const { return tasks_.busy(); }
  // Returns when nothing is being copied any more.
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  asio::awaitable<void> store(Contribution contribution, Descriptor payload,
                              std::uint64_t gathering);
  asio::awaitable<std::vector<Descriptor>> shards_of(Contribution& contribution, Descriptor payload,
                                                     std::uint64_t size_bytes);
  void on_spooled(Contribution contribution);
  asio::awaitable<void> copy_snapshot(Applied holds, Descriptor file);
  bool is_final(const Applied& holds) const;
  void on_snapshot_spooled(const Snapshot& snapshot);
  void wait_for_room(const Contribution& contribution, std::uint64_t size_bytes);
  void wait_for_room(Applied holds, Descriptor file, std::uint64_t size_bytes);
  void look_for_snapshots_room();
  void end_wait_for_room();
  std::string room_sentence() const;
  asio::any_io_executor thread_of(asio::thread_pool& own) const;

  struct WaitsForRoom {
    Contribution contribution;  // whose payload the worker keeps
    std::uint64_t size_bytes = 0;
    bool worker_asks = false;  // what to do
  };

  struct SnapshotWaits {
    Applied holds;
    Descriptor file;  // open still where a newer one has its name
    std::uint64_t size_bytes = 0;
    std::optional<Round> asked_at = {};  // for room
  };

  CoordinatorContext context_;
  Answer answer_;
  std::uint64_t gatherings_ = 0;  // so far
  std::uint64_t payload_bytes_ = 0;
  std::optional<WaitsForRoom> waits_for_room_;
  std::optional<SnapshotWaits> snapshot_waits_;
  std::optional<Applied> newest_snapshot_;  // that was handed over
  bool snapshot_waited_ = false;            // a warning said so
  inter::TaskGroup tasks_;
  // No payload waits for a snapshot.
  asio::thread_pool payload_copies_{1}, snapshot_copies_{1};
};

}  // namespace causeway::diloco
