// What a worker's process keeps in the host's memory, known before it has any of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "intra/step/worker_options.h"

namespace causeway::intra {

struct MemoryPart {
  std::string name;
  std::uint64_t bytes = 0;
};

// Its parts at their largest, of a region that has all its ranks: the spans of the training state,
// payloads, and the model's activations if steps are computed on the CPU. Not in it: files, which
// are mapped and not held, payloads that are decoded, and what libraries keep. Pure but for the
// number of threads.
std::vector<MemoryPart> memory_need(const WorkerOptions& options);

// Throws Errc::bad_model, with both figures, if this host has not even half of it: the parts are
// upper bounds, and not all are at their largest at once.
void check_memory(const std::vector<MemoryPart>& need);

// One line for the log, in MiB.
std::string describe(const std::vector<MemoryPart>& need);

}  // namespace causeway::intra
