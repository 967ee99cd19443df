// Progress of a worker as it crosses to the coordinator.
#pragma once

#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_session.h"

namespace causeway::diloco {

worker_wire::Report encode(const Progress& progress);
Progress decode(const worker_wire::Report& message);

}  // namespace causeway::diloco
