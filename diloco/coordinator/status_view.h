// What a coordinator shows of itself: status.json, and in a sentence what it waits for. Put
// together from its parts, and from what only it knows.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "diloco/coordinator/coordinator_context.h"
#include "diloco/coordinator/peer_links.h"
#include "diloco/coordinator/region_status.h"
#include "diloco/coordinator/wait_log.h"
#include "diloco/coordinator/worker_side.h"
#include "diloco/pacing/egress_meter.h"
#include "inter/mesh/mesh.h"

namespace causeway::diloco {

// To be added to what is waited for while there is no leader: links that stand, on which answers
// take too long for an election. Empty: there is none.
std::string late_answers(const std::map<std::string, inter::LinkStats>& links,
                         std::chrono::microseconds election);

class StatusView {
 public:
  // Both parts outlive this.
  StatusView(CoordinatorContext context, const PeerLinks& links, const WorkerSide& worker);

  RegionStatus status() const;
  std::string waiting_for() const;  // empty: nothing
  // Rounds that the worker has applied, as far as this process knows.
  Round applied_version() const;

  // They may be renewed while the run goes on. To be called again and again.
  void look_at_certificates(std::chrono::steady_clock::time_point now);
  // As WaitLog has it.
  void note_wait(const std::string& what);
  void set_last_error(const std::string& text) { last_error_ = text; }
  // Why it is out of the run.
  void set_abstention(const std::string& why) { abstention_ = why; }
  // What is waited for at the end; empty: nothing any more.
  void set_goodbye(const std::string& waiting) { goodbye_ = waiting; }

 private:
  void add_agreement(RegionStatus& status) const;
  void add_worker(RegionStatus& status) const;
  void add_links(RegionStatus& status) const;
  std::optional<EgressStatus> egress() const;
  std::map<std::string, double> egress_said() const;

  CoordinatorContext context_;
  const PeerLinks& links_;
  const WorkerSide& worker_;
  WaitLog wait_log_;
  std::optional<double> certificates_until_unix_s_;
  std::chrono::steady_clock::time_point look_at_certificates_at_;  // again
  std::string last_error_;
  std::optional<std::string> abstention_;
  std::string goodbye_;
  mutable OwnEgress own_egress_;
  const std::map<std::string, double> earlier_egress_said_;
};

}  // namespace causeway::diloco
