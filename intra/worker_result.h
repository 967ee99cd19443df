// What a worker leaves for whoever started it: small JSON files in its directory, read whole or not
// at all.
#pragma once

#include <filesystem>

#include "diloco/worker_session.h"
#include "intra/worker_loop.h"

namespace causeway::intra {

// result.json: keys are WorkerResult's members. A loss that is not a number is null.
void write_result(const std::filesystem::path& directory, const WorkerResult& result);

// status.json of the synchronous baseline, for displays: as a coordinator writes it, with what
// there is of it. In other runs the worker reports through its coordinator.
void write_status(const std::filesystem::path& directory, const diloco::Progress& progress);

}  // namespace causeway::intra
