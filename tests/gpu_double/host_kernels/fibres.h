// Thread blocks on the host: each thread of a block is a fibre, and blocks come one after the
// other. A fibre runs until it waits for others, so a wait that is missing shows: who should have
// waited is far ahead. Of those that can go on the first runs in one grid and the last in the next:
// right results depend on neither.
#pragma once

#include <cstdint>
#include <functional>

namespace causeway::gpu_double {

// The running fibre's.
unsigned thread_of_block();
unsigned block_of_grid();

// `body` once for each thread of each block. Ends the program with a message (cudart.h) where
// threads wait for one that left, for different things, or for each other.
void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& body);

// What all threads of the block, or of the warp, bring to one meeting, in their order. `what` is
// the same for all of them. It holds until the caller's next meeting.
const std::uint64_t* meet_block(const char* what, std::uint64_t mine);
const std::uint64_t* meet_warp(const char* what, std::uint64_t mine);
unsigned threads_of_block();

}  // namespace causeway::gpu_double
