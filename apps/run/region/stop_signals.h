// Ctrl-C in programs whose main thread computes or blocks: a worker, and the WAN of packets. The
// coordinator, simulate and the relay wait for signals in their io_context instead. The first
// SIGINT or SIGTERM asks for a clean end, the second ends at once with 130.
//
// No handler interrupts a thread that computes: oneDNN's JIT products point the stack pointer at
// the heap while they run, and the frame of a signal would overwrite what lies there
// (its x64 GEMM kernels up to version 3.11.1, uxlfoundation/oneDNN issue 4845).
#pragma once

namespace causeway::run {

// Blocks both signals in this thread, in the threads and in the processes that it starts from now
// on, and begins to wait for them. To be called once, before other threads start.
void watch_stop_signals();
bool stop_requested();        // true after the first signal
void unblock_stop_signals();  // for a process just forked, before it becomes another program

}  // namespace causeway::run
