// A region's coordinator: it owns all agreement and no numbers. One thread.
//
// What happens reaches one of its parts, which tells the round protocol (round_protocol.h, a pure
// state machine) of it as an event. What the protocol then wants is carried out by the part that
// knows it.
//
//   coordinator.cc         opens and closes the parts, and passes actions to them
//   protocol_driver.h      the protocol with its clock, and why the coordinator ends
//   region_directory.h     the ledger, the spool and the files shown: which run this region is in
//   peer_links.h           what other regions say (inter), and what is said to them
//   worker_side.h          what this region's worker says, and what it is told
//   worker_farewell.h      and when its part in the run is over
//   follow/follower_server.h  whoever reads the run without taking part
//   contribution_intake.h  what the worker hands over, on its way into the spool
//   spool_check.h          what the worker gets, looked at once more
//   status_view.h          what it shows of itself
//   abstention.h           what it does while its disk takes nothing
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "diloco/coordinator/shard_tools.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/follow/weights_shelf.h"
#include "diloco/log/membership.h"
#include "diloco/region/protocol_options.h"
#include "inter/mesh/mesh.h"

namespace causeway::diloco {

// Where a forked run begins: the newest snapshot of another run that the run confirmed. A
// coordinator never looks inside a payload, so whoever starts one has checked that this is the
// state that the other run's signed ledger names.
struct Fork {
  Origin origin;
  std::filesystem::path snapshot;  // in the other run's spool, which may have let it go
  // It, open since it was checked. Let go of once it is copied.
  std::shared_ptr<std::optional<MappedBytes>> content;
};

// Into `spool`. Throws std::system_error (Errc::lineage) if the content is not the origin's blob.
void copy_origin(const Fork& fork, const std::filesystem::path& spool);

enum class Start { resume, found, join, fork };

struct CoordinatorOptions {
  std::string region;
  // Of this process; filled in by the coordinator where it is empty.
  std::string process = {};
  // All members as configured, any order: who may be met before the log is known, and where to dial
  // them (dialled() in peer_links.h). An empty address: that one dials.
  std::vector<Member> members;
  // Who founds the run: its word is believed about which run this is. Empty: whoever says so first.
  std::string founder = {};
  std::uint32_t workers = 1;  // ranks in this region
  // How long the others wait for ranks that are missing before they go on without them.
  std::chrono::milliseconds rank_wait{30'000};
  Start start = Start::resume;
  std::optional<Fork> fork;  // with Start::fork
  // `self`, `incarnation`, `witness`, `heartbeat` and `seed` are filled in by the coordinator.
  ProtocolOptions protocol;
  std::string
      shared_config;  // canonical text of everything all regions must share, "key = value" lines
  // Likewise of what this region's workers must share with it; empty: nothing is compared.
  std::string region_config = {};
  // Of a region that keeps all that a replay of the run needs: the resolved configuration, which
  // goes with it (archive.h). Empty: it keeps what the run needs.
  std::string kept_config;
  std::filesystem::path directory;  // the region's own directory: ledger/, spool/, status.json,
                                    // events.jsonl, worker.sock
  // Where to copy what workers hand over, instead of in threads of its own: for tests.
  asio::any_io_executor copying;
  // Where workers on other hosts attach; none: they cannot.
  std::optional<inter::Endpoint> worker_listen;
  // Told of each round that the worker applied: its line of events.jsonl (docs/outputs.md).
  std::function<void(const std::string& line)> on_round = {};
  // Whether a snapshot holds the state that it is said to hold: empty, or what it is instead.
  // Called in any thread; none: it is not looked at.
  std::function<std::string(const std::filesystem::path& file, const Digest& state)>
      wrong_snapshot = {};
  // Why this region has no room for what a program that attached trains: empty, or what to set. As
  // in AttachRequest. None: there is room for everything.
  std::function<std::string(const NamedTensors& tensors, std::uint32_t save_rounds)>
      model_objection = {};
  // Whether this region's worker left its result of this run, which is over at that version. None:
  // it is known only from the worker itself.
  std::function<bool(const std::string& run_id, Round version)> has_result = {};
  // How long the worker is waited for at the end, from its last word on.
  std::chrono::milliseconds goodbye{600'000};
  ShardTools shards = {};           // of payloads; without, no round may be sharded
  EgressPrices egress_prices = {};  // of what this region sends
  // How fast all followers together are served; 0: not at all.
  std::uint64_t follower_bytes_per_s = 0;
  WeightsTools follower_weights = {};  // for those that want the weights alone
  inter::MeshOptions mesh;             // self, greeting filled in by the coordinator
};

// Everybody who is configured, in the log's order.
Membership configured_membership(const CoordinatorOptions& options);

// Exit codes as in README.md: 0 done, 2 configured wrongly, 3 a peer failed for good, 4 state
// missing or of another lineage, 75 start it again.
struct RunOutcome {
  int exit_code = 0;
  std::string message;
};

class Coordinator {
 public:
  Coordinator(asio::any_io_executor executor, CoordinatorOptions options);
  ~Coordinator();

  // Runs until the run is over, fails for good, or is stopped. While the disk fails it promises
  // nothing and is out of the run, and its worker trains on; it is back when the disk works again.
  // Throws std::system_error for what must reach main.
  asio::awaitable<RunOutcome> run();

  // Whether its files are open, or were before their disk failed.
  bool has_opened() const;

  // Ends run() soon: workers were told, links are closed, state is on disk.
  void stop();

  std::uint16_t listening_port() const;

 private:
  class Implementation;
  asio::any_io_executor executor_;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::diloco
