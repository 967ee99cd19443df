// A run in rehearsal: the real round protocol of every region, in a world where nothing is computed
// and payloads are names with a size. What comes out is how long rounds take, agreement, queues and
// unequal regions included.
//
// A region's worker is a count of inner steps. Exchange number i begins when it has done
// start_step(i) of them; it may then go on up to finish_step(i), where it waits for the record, and
// applies it. That is every overlap variant: the protocol is the same for all.
//
// The world is given: a clock whose events are posted to it, and channels between the regions.
// Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "diloco/pacing/time_model.h"
#include "diloco/region/protocol_options.h"
#include "inter/mesh/mesh.h"

namespace causeway::diloco::tuner {

class World {
 public:
  virtual ~World() = default;

  virtual Time now() const = 0;
  virtual void after(Time delay, std::function<void()> event) = 0;
  // Runs the next event; false if there is none up to `limit`.
  virtual bool step(Time limit) = 0;

  // The region's process starts. `handler` must outlive the channel, and the channel must end
  // before the world.
  virtual std::unique_ptr<inter::Channel> start(const std::string& region, std::string greeting,
                                                inter::MeshHandler& handler) = 0;
  // What the region holds.
  virtual void hold(const std::string& region, const inter::BlobId& blob) = 0;
  virtual void release(const std::string& region, const inter::BlobId& blob) = 0;
  virtual std::uint64_t received_bytes(const std::string& region, const inter::BlobId& blob) = 0;
  virtual std::uint64_t sent_bytes(const std::string& region) const = 0;
};

// How fast a region is. Encoding, applying and storing are of the whole model.
struct RegionSpeed {
  double step_s = 0, step_deviation_s = 0;  // of single steps, which vary independently
  double encode_s = 0;
  double apply_s = 0;  // decoding every region's payload included
  // A durable write: of a payload, at its contributor and wherever it arrives, and of anything
  // else that the protocol saves before it goes on.
  double store_s = 0, save_s = 0;
};

struct RehearsalOptions {
  std::map<std::string, RegionSpeed> regions;
  std::string founder;
  std::uint32_t k = 0;
  Overlap overlap;
  std::uint64_t payload_bytes = 0;  // of the whole model
  // Exchanges before measuring begins, and while measuring lasts; times the fragments.
  std::uint32_t rounds_before = 2, rounds = 8;
  double measured_s_min = 0;  // goes on measuring until this much time has passed
  double limit_s = 0;         // gives up at this time; 0: never
  double poll_s = 1;  // how often what has arrived of a payload is looked at; a coordinator: 1
  // Of the run; `self`, `incarnation`, `rounds`, `k` and `seed` are filled in.
  ProtocolOptions protocol;
  std::uint64_t seed = 1;
};

struct RehearsalResult {
  bool complete = false;  // all that was to be measured was
  double rounds = 0;      // of K steps, measured
  double round_s = 0;     // of K steps and their exchanges, on average over the regions
  double round_s_p95 = 0;
  double utilisation = 0;    // inner steps' share of the time, on average over the regions
  double participation = 0;  // contributions listed in their round, of all there could be
  double sent_bytes = 0;     // by all regions, per round
};

// A region that never gets anywhere makes the result incomplete; nothing is thrown for it.
RehearsalResult rehearse(World& world, const RehearsalOptions& options);

}  // namespace causeway::diloco::tuner
