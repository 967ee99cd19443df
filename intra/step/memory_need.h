// What a worker's process keeps in the host's memory, known before it has any of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "intra/step/worker_options.h"

namespace causeway::intra {

struct MemoryPart {
  enum class When : std::uint8_t {
    always,
    in_files,     // mapped: the kernel lets it go when others need the memory
    while_alone,  // only a region that is cut off from the others has it
  };
  std::string name;
  std::uint64_t bytes = 0;
  When when = When::always;
};

// Its parts at their largest, of a region that has all its ranks: the spans of the training state,
// payloads, the model's activations if steps are computed on the CPU, and the program. Not in it:
// data files, which are mapped, contributions that are listed late, and what a GPU's driver keeps.
// Pure but for the number of threads.
std::vector<MemoryPart> memory_need(const WorkerOptions& options);

// What a process has of its own, a coordinator too; and what it has of the program's and its
// libraries' files, which all share.
inline constexpr std::uint64_t kProgramBytes = 8U << 20, kProgramFileBytes = 20U << 20;

// Of parts that others cannot have meanwhile.
std::uint64_t held_bytes(const std::vector<MemoryPart>& need);

// Throws Errc::bad_model, with both figures, if this host has less than that, whatever else runs
// here. Warns if it has less now.
void check_memory(const std::vector<MemoryPart>& need);

// One line for the log, in MiB.
std::string describe(const std::vector<MemoryPart>& need);

}  // namespace causeway::intra
