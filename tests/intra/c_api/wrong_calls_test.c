// Calls of the C API that cannot be right: each gets a status and one sentence, and loses nothing.
// Plain C11, so that the header is. No coordinator is needed.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "intra/c_api/causeway.h"

// What CAUSEWAY_1.0 has, on machines of 64 bits: programs that were built with it go by these.
_Static_assert(sizeof(void*) != 8 || sizeof(struct causeway_tensor) == 48, "of version 1.0");
_Static_assert(sizeof(void*) != 8 || sizeof(struct causeway_settings) == 80, "of version 1.0");
_Static_assert(offsetof(struct causeway_steps, run_steps) == 72, "of version 1.0");
_Static_assert(sizeof(struct causeway_steps) == 80, "since run_steps");

static int failures = 0;

static void expect(int line, int status, int wanted, const char* sentence) {
  const int told = strstr(causeway_last_error(), sentence) != NULL;
  if (status == wanted && told) return;
  ++failures;
  fprintf(stderr, "line %d\n  status %d, wanted %d\n  said   \"%s\"\n  wanted \"%s\"\n", line,
          status, wanted, causeway_last_error(), sentence);
}

static float bias[3] = {1, 2, 3}, weight[4] = {4, 5, 6, 7};
static const int64_t kBias[] = {3}, kWeight[] = {2, 2}, kNoStride[] = {0, 1};

struct opening {
  struct causeway_settings settings;
  struct causeway_tensor tensors[2];
  size_t count;
  causeway_worker* worker;
};

static int asked = 0;
static int wait_no_more(void* context, const char* what) {
  asked += strcmp(context, "context") == 0 && strstr(what, "worker.sock") != NULL;
  return 0;
}

static struct opening good(void) {
  const struct opening opening = {.settings = {.struct_size = sizeof(struct causeway_settings),
                                               .region = "eu",
                                               .directory = "there-is-none",
                                               .keep_waiting = wait_no_more,
                                               .context = (void*)"context"},
                                  .tensors = {{.struct_size = sizeof(struct causeway_tensor),
                                               .name = "bias",
                                               .data = bias,
                                               .dimensions = 1,
                                               .shape = kBias},
                                              {.struct_size = sizeof(struct causeway_tensor),
                                               .name = "weight",
                                               .data = weight,
                                               .dimensions = 2,
                                               .shape = kWeight}},
                                  .count = 2};
  return opening;
}

static int open_worker(struct opening opening) {
  const int status =
      causeway_worker_open(&opening.settings, opening.tensors, opening.count, &opening.worker);
  if (opening.worker != NULL) ++failures;
  return status;
}

static void test_settings(void) {
  struct opening wrong = good();
  expect(__LINE__, causeway_worker_open(NULL, wrong.tensors, 2, &wrong.worker), CAUSEWAY_WRONG_CALL,
         "settings is a null pointer");
  expect(__LINE__, causeway_worker_open(&wrong.settings, NULL, 2, &wrong.worker),
         CAUSEWAY_WRONG_CALL, "tensors is a null pointer");
  expect(__LINE__, causeway_worker_open(&wrong.settings, wrong.tensors, 2, NULL),
         CAUSEWAY_WRONG_CALL, "worker is a null pointer");
  wrong.settings.struct_size = 0;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL,
         "settings.struct_size is 0: set it to sizeof the struct");
  wrong.settings.struct_size = sizeof(struct causeway_settings) + 8;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "which is more than this library");
  wrong = good();
  wrong.settings.region = NULL;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "settings.region is empty");
  wrong = good();
  wrong.settings.directory = NULL;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "settings.directory is empty");
  wrong.settings.directory = "/dev/null";
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "/dev/null, is not a directory");
}

static void test_tensors(void) {
  struct opening wrong = good();
  wrong.count = 0;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "settings.tensors is empty");
  wrong = good();
  wrong.tensors[1].struct_size = 4;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "tensors[1].struct_size is 4");
  wrong = good();
  wrong.tensors[1].name = NULL;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "tensors[1].name is a null pointer");
  wrong.tensors[1].name = "bias";
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "tensor 'bias' appears twice");
  wrong = good();
  wrong.tensors[0].data = NULL;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL,
         "tensor 'bias': its data is a null pointer");
  wrong = good();
  wrong.tensors[0].shape = NULL;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL, "tensors[0].shape is a null pointer");
  wrong = good();
  wrong.tensors[1].strides = kNoStride;
  expect(__LINE__, open_worker(wrong), CAUSEWAY_WRONG_CALL,
         "tensor 'weight': stride 0 in dimension 0");
}

static void test_worker(void) {
  struct causeway_steps steps = {.struct_size = sizeof steps};
  int called_back;
  struct opening opening = good();
  expect(__LINE__, causeway_worker_next(NULL, opening.tensors, 2, &steps), CAUSEWAY_WRONG_CALL,
         "worker is a null pointer");
  expect(__LINE__, causeway_worker_called_back(NULL, &called_back), CAUSEWAY_WRONG_CALL,
         "worker is a null pointer");
  expect(__LINE__, causeway_worker_done(NULL, opening.tensors, 2, 1, 0), CAUSEWAY_WRONG_CALL,
         "worker is a null pointer");
  expect(__LINE__, causeway_worker_validated(NULL, 0), CAUSEWAY_WRONG_CALL,
         "worker is a null pointer");
  causeway_worker_close(NULL);
}

// A directory without a coordinator is waited in, as one may come; the caller hears where, and ends
// it.
static void test_waiting(void) {
  expect(__LINE__, open_worker(good()), CAUSEWAY_STOPPED, "stopped");
  if (asked == 0) ++failures;
}

int main(void) {
  test_settings();
  test_tensors();
  test_worker();
  test_waiting();
  if (strcmp(causeway_version(), "") == 0) ++failures;
  if (failures > 0) fprintf(stderr, "%d failures\n", failures);
  return failures > 0;
}
