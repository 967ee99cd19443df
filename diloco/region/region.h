// All that one region knows and holds, taken up where its disk left it. The machines of
// diloco/round act on it.
#pragma once

#include <cstdint>

#include "diloco/region/agreement.h"
#include "diloco/region/contributions.h"
#include "diloco/region/fetcher.h"
#include "diloco/region/outbox.h"
#include "diloco/region/peers.h"
#include "diloco/region/persistent_state.h"
#include "diloco/region/protocol_options.h"
#include "diloco/region/region_worker.h"
#include "diloco/region/run_history.h"
#include "diloco/region/spool.h"
#include "diloco/region/status_report.h"

namespace causeway::diloco {

struct Region {
  Region(ProtocolOptions options, PersistentState state);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Bytes of a payload that are here: all of them only once its hash was checked.
  std::uint64_t held_bytes(const inter::BlobId& payload) const;
  // Records leave memory when nothing but their place in history is of use any more: their payloads
  // are gone, and no contribution of their time can come.
  void forget_old();

  // Each refers to some of those before it.
  const ProtocolOptions options;
  Outbox out;
  Peers peers;
  Agreement agreement;
  RunHistory history;
  Contributions contributions;
  Spool spool;
  Fetcher fetcher;
  RegionWorker worker;
  StatusReport report;

 private:
  void restore_log();
};

}  // namespace causeway::diloco
