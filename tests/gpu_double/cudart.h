// A double of the CUDA runtime for tests on hosts without GPU: the functions that Causeway calls,
// linked in place of the library, with the strictness that a GPU does not have.
//
//   streams   do nothing before somebody waits for them, so that who forgets to wait finds old
//   values memory    may be touched by work in streams alone: a host that reads or writes it
//   crashes. It is full of NaN at
//             first, ends at a page that nobody may touch, and is unmapped when it is freed
//   capture   refuses allocating, freeing and waiting, and work of other streams, as the real one
//   does
//
// What a GPU would report later, or not at all, ends the program with a message.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace causeway::gpu_double {

// What a kernel's launch does.
void enqueue(cudaStream_t stream, std::function<void()> kernel);

// Called by work: it takes this long, as events see it. A kernel takes 10 us besides.
void spend(double milliseconds);

// What waits for another process: tried until it is true. False: the stream is another GPU's.
bool enqueue_until_done(cudaStream_t stream, std::function<bool()> work);

// Since the program began.
struct Counts {
  std::uint64_t launches = 0;    // of kernels and products, those of graphs included
  std::uint64_t graphs = 0;      // replayed
  std::uint64_t up_bytes = 0;    // to the device
  std::uint64_t down_bytes = 0;  // from it
  std::uint64_t waits = 0;       // of the host for work that was not done
};
Counts counts();

// Prints what is wrong and ends the program.
[[noreturn]] void refuse(const char* what);

// What the double knows of an address.
enum class Where : std::uint8_t { device, pinned, pageable };
Where where(const void* address, std::size_t bytes);  // refuses what is partly device memory

// While this lives, the calling thread's work may touch device memory.
class Unlocked {
 public:
  Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked();
};

// Whether the calling thread records a graph; if so, the graph is spoilt, as by any call that it
// may not contain.
bool spoils_capture();

int devices();         // CAUSEWAY_DOUBLE_GPUS, 1 by default
int current_device();  // of the thread

}  // namespace causeway::gpu_double
