// What a worker leaves for whoever started it: JSON files in its directory. Those that are replaced
// are read whole or not at all.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "diloco/worker_session.h"
#include "intra/outer_round.h"
#include "intra/worker_loop.h"

namespace causeway::intra {

// result.json: keys are WorkerResult's members. A loss that is not a number is null.
void write_result(const std::filesystem::path& directory, const WorkerResult& result);
// None if there is none.
std::optional<WorkerResult> read_result(const std::filesystem::path& directory);

// Appends to compression.jsonl how the contribution to `round` was encoded: one object per round,
// in it one per tensor. Warns of tensors that the error bound made step up.
void record_encodings(const std::filesystem::path& directory, diloco::Round round,
                      std::span<const TensorEncoding> encodings);

// status.json of the synchronous baseline, for displays: as a coordinator writes it, with what
// there is of it. In other runs the worker reports through its coordinator.
void write_status(const std::filesystem::path& directory, const diloco::Progress& progress);

}  // namespace causeway::intra
