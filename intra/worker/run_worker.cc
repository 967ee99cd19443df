#include "intra/worker/run_worker.h"

#include <spdlog/spdlog.h>

#include "diloco/worker/worker_session.h"
#include "intra/step/memory_need.h"
#include "intra/worker/region_worker.h"
#include "intra/worker/run_synchronous.h"

namespace causeway::intra {

WorkerResult run_worker(const WorkerOptions& options, const std::function<bool()>& interrupted) {
  const std::vector<MemoryPart> need = memory_need(options);
  spdlog::info("{}", describe(need));
  check_memory(need);
  if (options.synchronous) return run_synchronous(options, interrupted);
  return RegionWorker(options, interrupted, diloco::WorkerSession::attach).run();
}

}  // namespace causeway::intra
