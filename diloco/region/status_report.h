// Where this region stands, as it tells its peers, and when it tells them again.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/region/peers.h"
#include "diloco/region/region_worker.h"
#include "diloco/region/run_history.h"
#include "diloco/region/spool.h"

namespace causeway::diloco {

class StatusReport {
 public:
  // All must outlive this.
  StatusReport(const RunHistory& history, const RegionWorker& worker, const Spool& spool,
               Peers& peers)
      : history_(history), worker_(worker), spool_(spool), peers_(peers) {}

  void add_received(std::uint64_t bytes) { received_bytes_ += bytes; }
  void set_missing(std::vector<inter::BlobId> payloads) { missing_ = std::move(payloads); }
  Status status() const;
  // At once when something changed that others act on; at most every kReportInterval when only
  // bytes arrived.
  void publish(Time now);
  std::optional<Time> next_deadline() const;

 private:
  std::optional<Snapshot> snapshot() const;

  const RunHistory& history_;
  const RegionWorker& worker_;
  const Spool& spool_;
  Peers& peers_;
  std::uint64_t received_bytes_ = 0;
  std::vector<inter::BlobId> missing_;
  std::optional<Status> published_;
  Time published_at_{0};
};

}  // namespace causeway::diloco
