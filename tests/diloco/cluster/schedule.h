// Random schedules of faults over a Cluster, derived from a seed: which faults, when, to whom. One
// can be run with fewer of its faults, so that a failing one can be shrunk to those that matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/diloco/cluster/cluster.h"

namespace causeway::diloco::testing {

struct Fault {
  enum class Kind {
    kill_coordinator,
    kill_worker,
    kill_region,
    wipe,
    damage,          // to what its coordinator keeps of the log: `region`
    damage_payload,  // or a snapshot, in the spool of `region`
    lose_payload,    // every copy of one that the next record lists
    cut,
    sever,  // and never mended
    cut_one_way,
    isolate,
    pause,
    jump_clock,
    slow_link,
    corrupt_state,
    join,   // a region that nobody knew of: `region`
    leave,  // is removed: `region`
    heal,
  };
  Time at{0};
  Kind kind = Kind::heal;
  std::string region{};
  std::string other{};
  Time duration{0};
};
std::string describe(const Fault& fault);

inline constexpr Time kFaultsEnd = std::chrono::seconds{40};  // of all schedules

struct Schedule {
  ClusterOptions options;
  std::vector<Fault> faults;  // ascending time; then everything is healed
};
Schedule make_schedule(std::uint64_t seed);
// The same in runs that were forked, or whose members change meanwhile.
Schedule make_changing_schedule(std::uint64_t seed);
// One member lies (cluster_liar.cc), and the others keep to what can be survived beside it: of an
// odd number none is lost, of an even number one at a time. None of the honest is cut off.
Schedule make_lying_schedule(std::uint64_t seed);
// The same, and one disk flips, tears or forgets bytes of its region's ledger.
Schedule make_damaged_schedule(std::uint64_t seed);
// The same, and disks spoil payloads and snapshots: one copy, or all of one that is listed.
Schedule make_spoilt_schedule(std::uint64_t seed);
Schedule make_lost_schedule(std::uint64_t seed);
Schedule make_link_schedule(std::uint64_t seed);  // the same with real links, and fewer rounds
// With real links, too, and disks that have no more room than a configuration must give. A region
// is cut off for so long that it needs a snapshot, and others that it lacks are pushed to it
// meanwhile.
Schedule make_spool_schedule(std::uint64_t seed);
// One of the others, of a run whose rounds are sharded.
Schedule make_sharded_schedule(std::uint64_t seed);
// One of the others, with quick rounds, and a worker that takes about as long to apply one.
Schedule make_outrun_schedule(std::uint64_t seed);

// As apps/run/config/spool_need.h has it: the room that a configuration must give.
std::uint64_t least_spool_bytes(const ClusterOptions& options);

struct Result {
  std::string failure;  // empty: every property held and the run completed
  Round rounds = 0;
  std::size_t late = 0;         // contributions listed after their round
  std::size_t restores = 0;     // snapshots taken over
  std::size_t refusals = 0;     // what was announced as a snapshot, and is none
  std::size_t withdrawals = 0;  // records that took contributions out of a round again
  Term terms = 0;
  std::uint64_t chunks = 0;  // sent over real links
};
Result run(const Schedule& schedule);

// The same failure (its first words) with as few faults as removing one after the other allows.
Schedule shrink(const Schedule& schedule);

// For a schedule that fails: its seed, what is left of it when shrunk, and the failure.
std::string report(const Schedule& schedule);

}  // namespace causeway::diloco::testing
