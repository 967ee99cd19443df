#include "diloco/region/status_report.h"

#include <utility>

namespace causeway::diloco {

Status StatusReport::status() const {
  return {.version = history_.version(),
          .head = history_.head(),
          .applied = worker_.applied(),
          .payloads_from = spool_.payloads_from(),
          .snapshot = snapshot(),
          .received_bytes = received_bytes_,
          .data = worker_.data(),
          .missing = missing_,
          .revision = history_.revision()};
}

// The last version's is confirmed by no record, and may be all that a region lacks.
std::optional<Snapshot> StatusReport::snapshot() const {
  const std::optional<Snapshot>& offered = spool_.offered();
  const std::optional<Applied>& applied = worker_.applied();
  const bool last = history_.over() && offered && applied && !worker_.distrusted() &&
                    *applied == Applied{history_.version(), offered->state} &&
                    offered->version == applied->version;
  return last ? offered : spool_.snapshot();
}

void StatusReport::publish(Time now) {
  Status current = status();
  if (published_) {
    Status ignoring_bytes = current;
    ignoring_bytes.received_bytes = published_->received_bytes;
    if (ignoring_bytes == *published_ &&
        (current == *published_ || now < published_at_ + kReportInterval)) {
      return;
    }
  }
  peers_.broadcast(current);
  published_ = current;
  published_at_ = now;
}

std::optional<Time> StatusReport::next_deadline() const {
  if (!published_ || *published_ == status()) return std::nullopt;
  return published_at_ + kReportInterval;
}

}  // namespace causeway::diloco
