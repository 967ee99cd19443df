// What this process sets for itself at its start: signals, how OpenMP waits, open files.
//
// Ctrl-C in programs whose main thread computes or blocks: a worker, and the WAN of packets. The
// coordinator, simulate and the relay wait for signals in their io_context instead
// (signal_watch.h). The first signal asks for a clean end, another one ends at once with 130, if it
// wishes so (stop_wishes.h).
//
// No handler interrupts a thread that computes: oneDNN's JIT products point the stack pointer at
// the heap while they run, and the frame of a signal would overwrite what lies there
// (its x64 GEMM kernels up to version 3.11.1, uxlfoundation/oneDNN issue 4845).
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace causeway::run {

// SIGINT, SIGTERM, and SIGHUP for whom the terminal closes or the network leaves; not if this
// process was started to ignore it, as by nohup.
std::vector<int> stop_signals();

// Blocks these signals in this thread, in the threads and in the processes that it starts from now
// on, and begins to wait for them. To be called once, before other threads start.
void watch_stop_signals();
bool stop_requested();  // true after the first signal
// Where the parent is a launcher, which would end this process: its end requests a stop, too. One
// that was killed sends no signal, and its processes would train on beside the next start.
void stop_with_parent();
void restore_signals();  // for a process just forked, before it becomes another program

// Of the first process of a container (docker run, a pod): what nobody handles or waits for does
// not end it, as it ends any other. After this it does, with 130. To be called first of all.
void end_at_stop_signals_as_first_process();

// What nobody reads any more (| head) fails to be written, and does not end this process: for
// programs whose work is worth more than their output.
void outlive_readers();

// Ends this process with a line that names the file, where one that is mapped into memory was cut
// short (75), or cannot be read any more (1). Otherwise a signal would end it, and nobody would
// know why.
void explain_bus_errors();

// Ends this process (1) with a line that says what to do, where the system gives it no more memory,
// on whatever thread that happens. Otherwise "std::bad_alloc" would be all that is told.
void explain_missing_memory();
[[noreturn]] void end_without_memory();  // of whoever catches std::bad_alloc

// Why no program of ours can run on a stack of this limit, which would end it by a signal and
// without a word; empty: it can.
std::string stack_problem(rlim_t bytes);
rlim_t stack_limit();

// Standard input, output and error of whoever was started without (2>&-).

// Opens /dev/null in their place: the next file would take it, a state or a socket, and lines of
// the log would be written there. To read and to print still fail, as before; errors are dropped.
// To be called before anything is opened.
void occupy_standard_streams();

// How many threads OpenMP has and how they wait, however this program was started.

// Begins this program anew, with the same `arguments` (argv) and
// - OMP_WAIT_POLICY=passive, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. Threads that spin
//   while they wait take the cores from whatever else runs there, and a step then takes many times
//   as long.
// - OMP_NUM_THREADS, unless it is set, where a quota is good for fewer threads than there are cores
//   (intra/base/usable_cores.h).
// OpenMP reads these variables before main() begins, so nothing less helps. Returns where there is
// nothing to do, or it fails.
void prepare_openmp(char** arguments);

// What it makes it can use itself, whatever the umask: one that takes the owner's bits away would
// have it fail at the first file that it opens again. What others may do stays as it was.
void keep_own_access();

// How many files and connections this process may have open at a time.

// As many as the system allows it: the usual soft limit of 1,024 is for programs that use select().
// Links, doors and the spool need theirs whatever else is open.
inline void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace causeway::run
