// A coordinator whose disk fails is out of the run until it works: what is not on disk must not be
// promised. The worker keeps its numbers in memory and does not need us for inner steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <asio/awaitable.hpp>

#include "diloco/coordinator/coordinator_context.h"
#include "diloco/coordinator/peer_links.h"
#include "diloco/coordinator/worker_side.h"

namespace causeway::diloco {

constexpr std::chrono::seconds kLookAtDisk{2};

class Abstention {
 public:
  struct Pace {
    std::chrono::milliseconds show_every{500};
    std::chrono::milliseconds look_first{kLookAtDisk};  // then after twice as long, and so on
    std::chrono::milliseconds look_every{kLookAtDisk};
    // From then on whatever room there is will do.
    std::chrono::milliseconds try_anyway_after{60'000};
  };
  // After so long without a failure: one write that failed may well be the only one, and the other
  // regions wait. A disk that fails again and again is looked at less often.
  static Pace pace_after(std::chrono::steady_clock::duration without_failure);
  // Both parts are open, and outlive this.
  Abstention(CoordinatorContext context, PeerLinks& links, WorkerSide& worker, Pace pace);

  const std::string& why() const { return why_; }
  // Takes leave of the other regions, and returns when the disk works again or the coordinator
  // ends.
  asio::awaitable<void> wait_out();

 private:
  std::uint64_t room_wanted() const;
  asio::awaitable<void> until_disk_works();
  asio::awaitable<bool> reopens_to_workers();
  void show();

  CoordinatorContext context_;
  PeerLinks& links_;
  WorkerSide& worker_;
  const Pace pace_;
  const std::uint64_t wanted_;  // bytes, for the next round
  const std::string why_;
};

}  // namespace causeway::diloco
