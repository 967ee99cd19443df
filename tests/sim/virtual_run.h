// A whole run in virtual time: the real round protocol of every region over wan-sim's virtual
// engine. Computation is an event with a sampled duration; payloads and snapshots are phantom
// bytes. Same options, same log, byte for byte.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "diloco/round/round_protocol.h"
#include "wan-sim/virtual/internet.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::sim {

struct RunOptions {
  wan_sim::Scenario scenario;
  wan_sim::VirtualMode mode = wan_sim::VirtualMode::chunks;
  diloco::Round rounds = 10;
  std::uint64_t payload_bytes = 2'000'000;
  std::uint64_t snapshot_bytes = 20'000'000;
  diloco::Round checkpoint_rounds = 10;
  diloco::Round staleness_max = 2;
  wan_sim::Time compute = std::chrono::seconds{20};  // of K inner steps, on average
  double compute_spread = 0.1;                       // up to this share more or less
  std::size_t gathers_from = diloco::ProtocolOptions{}.gathers_from;
  std::ostream* log = nullptr;
};

class VirtualRun {
 public:
  explicit VirtualRun(RunOptions options);
  ~VirtualRun();

  // True if every region ended with exit code 0 by then.
  bool finish(wan_sim::Time limit);

  wan_sim::VirtualWan& wan() { return wan_; }
  void kill(const std::string& region);   // coordinator and worker; the disk stays
  void start(const std::string& region);  // again
  const std::vector<diloco::CommitRecord>& history() const { return history_; }
  diloco::Applied state(const std::string& region) const;
  double wait_s(const std::string& region) const;  // of the worker, between its training
  std::uint64_t sent_bytes(const std::string& region) const { return internet_.sent_bytes(region); }
  std::string describe() const;

 private:
  class Region;

  void committed(const std::string& region, const diloco::CommitRecord& record);
  void on_process(const wan_sim::ProcessAction& action);
  void poll();

  RunOptions options_;
  wan_sim::VirtualWan wan_;
  wan_sim::Internet internet_;
  std::map<std::string, std::unique_ptr<Region>> regions_;
  std::vector<diloco::CommitRecord> history_;
};

}  // namespace causeway::sim
