// The worker API for C, and for whatever calls C: how any training loop takes part in a run.
// Installed as <causeway/causeway.h>; docs/worker-api.md has the story, examples/c/ a whole
// program.
//
//   struct causeway_settings settings = {.struct_size = sizeof settings, ...};
//   struct causeway_steps steps = {.struct_size = sizeof steps};
//   causeway_worker* worker = NULL;
//   int status = causeway_worker_open(&settings, tensors, count, &worker);
//   while (status == CAUSEWAY_OK &&
//          (status = causeway_worker_next(worker, tensors, count, &steps)) == CAUSEWAY_OK) {
//     uint32_t taken = ...steps.count inner steps, while causeway_worker_called_back() says 0...
//     status = causeway_worker_done(worker, tensors, count, taken, loss);
//   }
//   if (status != CAUSEWAY_RUN_OVER) fprintf(stderr, "%s\n", causeway_last_error());
//   causeway_worker_close(worker);
//
// Every function that can fail returns a status. Nothing is ever thrown, and nothing of the
// caller's is kept but the callback with its context. A worker is for one thread at a time, and for
// the process that opened it: in one that is forked from it, calls are wrong calls, and
// causeway_worker_close() does nothing.
//
// The symbols have the version CAUSEWAY_1.0. Structs may grow at their end: `struct_size` says
// which members the caller knows, and a size that no version had is refused.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Numbers stay for ever.
enum causeway_status {
  CAUSEWAY_OK = 0,
  CAUSEWAY_RUN_OVER = 1,  // no error: there are no more steps, and the tensors hold the result
  // The arguments, or the order of the calls: nothing was changed, and a right call goes on.
  CAUSEWAY_WRONG_CALL = 2,
  // After all others the worker must be closed and opened anew.
  CAUSEWAY_STOPPED = 3,       // keep_waiting said so; the state is saved
  CAUSEWAY_REFUSED = 4,       // by the coordinator: another run, or no room for the model
  CAUSEWAY_DIVERGED = 5,      // these numbers are not those that the run agreed on
  CAUSEWAY_BAD_STATE = 6,     // what is on disk is damaged, or of other tensors
  CAUSEWAY_SYSTEM_ERROR = 7,  // a disk that is full, memory that is used up, and the like
  CAUSEWAY_FAILED = 8         // anything else
};

// What went wrong in the last call of this thread that failed: a sentence that says what to do.
// Valid until the next call of this thread. Never a null pointer.
const char* causeway_last_error(void);

// Of the library, as `causeway --version` has it: "0.1.0".
const char* causeway_version(void);

// One tensor of the parameters, in fp32. Element (i, j, ...) is
// data[i * strides[0] + j * strides[1] + ...]. Only causeway_worker_next() writes there.
struct causeway_tensor {
  size_t struct_size;  // sizeof(struct causeway_tensor), in every element of an array
  // Of causeway_worker_open(). Later calls go by the order, and look at nothing but the rest.
  const char* name;
  float* data;
  size_t dimensions;
  // So many. Tensors of two or more dimensions may be compressed differently from vectors.
  const int64_t* shape;
  // So many, in elements, negative ones too. NULL: no gaps, the last index runs fastest.
  const int64_t* strides;
};

struct causeway_settings {
  size_t struct_size;  // sizeof(struct causeway_settings)
  const char* region;
  // The region's own directory: checkpoints/ is kept in it. On the coordinator's host the directory
  // that the coordinator uses, which has its socket.
  const char* directory;
  // HOST:PORT where a coordinator on another host listens for workers (--worker-listen), and a
  // directory made by `causeway certs` with ca.crt, REGION.crt and REGION.key. NULL: this host.
  const char* coordinator;
  const char* certificates;
  // What one inner step of the region reads: samples move its cursor, tokens are its weight.
  uint64_t samples_per_step;  // 0: 1
  uint64_t tokens_per_step;   // 0: a sample is one
  // Rounds, of every fragment, between states on disk, and snapshots for joiners. 0: 10.
  uint32_t save_rounds;
  // Not 0: the program evaluates when a run wants that (causeway_steps.validation_samples).
  uint32_t validates;
  // Called at least every second while the worker waits, with what it waits for. 0: stop, with
  // CAUSEWAY_STOPPED. NULL: wait for ever.
  int (*keep_waiting)(void* context, const char* what);
  void* context;
};

// Inner steps to take.
struct causeway_steps {
  size_t struct_size;  // sizeof(struct causeway_steps), set by the caller
  uint64_t round;
  uint64_t first_sample;   // the region's sample number of the first step
  uint64_t schedule_step;  // position of the first in the schedule that all regions share
  // What to read: part `part` of `parts` equal ones of the data, in pass number `pass` over it,
  // where the region's sample number `pass_begin` is the first.
  uint64_t pass;
  uint64_t pass_begin;
  uint32_t part;
  uint32_t parts;
  // Not 0: there are no steps to take now. The tensors hold what all regions agreed on: evaluate
  // them on this many samples, which nobody trains on and which are the same in every round, call
  // causeway_worker_validated(), and then causeway_worker_next().
  uint64_t validation_samples;
  uint32_t count;
  uint32_t reserved;  // 0
  // Of the whole run, nominal: where a schedule ends that counts by schedule_step. A program that
  // was built before this member was there has a struct that ends above.
  uint64_t run_steps;
};

typedef struct causeway_worker causeway_worker;

// Attaches to the region's coordinator, or waits until it can. The tensors hold what a new run
// begins with, the same in every region; that is not used if the region has a state on disk or
// joins a run that is under way. Names and shapes must be the same in every region.
int causeway_worker_open(const struct causeway_settings* settings,
                         const struct causeway_tensor* tensors, size_t count,
                         causeway_worker** worker);

// A worker, or a null pointer. The state on disk stays that of the last save.
void causeway_worker_close(causeway_worker* worker);

// Waits until there are steps to take, and writes the parameters to start from into the tensors.
// They may lie elsewhere than before, but have the same shapes in the same order.
int causeway_worker_next(causeway_worker* worker, const struct causeway_tensor* tensors,
                         size_t count, struct causeway_steps* steps);

// Sets *called_back to 1 if the steps should stop early, else to 0: the region was cut off from the
// others, trained on by itself, and can reach them again. Cheap; call it between steps.
int causeway_worker_called_back(causeway_worker* worker, int* called_back);

// `taken` steps were taken: all of them, or less if called back. `loss`: of the last one, for
// displays. If parameters are not finite, the region sits the round out.
int causeway_worker_done(causeway_worker* worker, const struct causeway_tensor* tensors,
                         size_t count, uint32_t taken, double loss);

// The mean loss that causeway_steps.validation_samples asked for.
int causeway_worker_validated(causeway_worker* worker, double loss);

#ifdef __cplusplus
}  // extern "C"
#endif
