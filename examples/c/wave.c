// A trainer in plain C takes part in a run: a small network that learns one wave of a sine. Plain
// loops, plain SGD; nothing here knows how regions agree.
//
//   cc -std=c11 wave.c $(pkg-config --cflags --libs causeway) -lm -o wave
//   wave REGION DIRECTORY                            next to that region's coordinator
//   wave REGION DIRECTORY HOST:PORT CERTIFICATES     on another host
#include <causeway/causeway.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kHidden = 32, kBatch = 32, kTensors = 4 };

// The parameters, each tensor where it likes to be.
static float hidden_weight[kHidden], hidden_bias[kHidden], out_weight[kHidden], out_bias[1];
static const float kLearningRate = 0.05F;

// In [0, 1), the same for the same key everywhere (splitmix64).
static float uniform(uint64_t key) {
  key += 0x9E3779B97F4A7C15ULL;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ULL;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBULL;
  return (float)((key ^ (key >> 31)) >> 40) / 16777216.0F;
}

static uint64_t hash(uint64_t begin, const void* bytes, size_t count) {  // FNV-1a
  for (size_t i = 0; i < count; ++i)
    begin = (begin ^ ((const unsigned char*)bytes)[i]) * 0x100000001B3ULL;
  return begin;
}
static const uint64_t kHashBegin = 0xCBF29CE484222325ULL;

// The same in every region.
static void initialise(void) {
  for (int h = 0; h < kHidden; ++h) {
    hidden_weight[h] = 4 * uniform((uint64_t)h) - 2;
    hidden_bias[h] = 4 * uniform(1000 + (uint64_t)h) - 2;
    out_weight[h] = 0.4F * uniform(2000 + (uint64_t)h) - 0.2F;
  }
}

// The squared error of one sample; moves the parameters against its gradient, times `rate`.
static float learn(uint64_t seed, uint64_t sample, float rate) {
  const float x = 4 * uniform((seed << 40) + sample) - 2;
  float hidden[kHidden], y = out_bias[0];
  for (int h = 0; h < kHidden; ++h) {
    hidden[h] = tanhf(hidden_weight[h] * x + hidden_bias[h]);
    y += out_weight[h] * hidden[h];
  }
  const float error = y - sinf(1.5F * x);
  for (int h = 0; h < kHidden; ++h) {
    const float back = error * out_weight[h] * (1 - hidden[h] * hidden[h]);
    out_weight[h] -= rate * error * hidden[h];
    hidden_weight[h] -= rate * back * x;
    hidden_bias[h] -= rate * back;
  }
  out_bias[0] -= rate * error;
  return error * error;
}

// One inner step, sample by sample; the mean squared error.
static double step(uint64_t seed, uint64_t first_sample) {
  double loss = 0;
  for (uint64_t i = 0; i < kBatch; ++i)
    loss += (double)learn(seed, first_sample + i, kLearningRate) / kBatch;
  return loss;
}

// On samples that no region trains on.
static double held_out_loss(uint64_t samples) {
  double loss = 0;
  for (uint64_t i = 0; i < samples; ++i) loss += (double)learn(0, i, 0) / (double)samples;
  return loss;
}

// Follows the run to its end; returns the status that it ended with.
static int train(causeway_worker* worker, const struct causeway_tensor* tensors, uint64_t seed) {
  struct causeway_steps steps = {.struct_size = sizeof steps};
  int status;
  while ((status = causeway_worker_next(worker, tensors, kTensors, &steps)) == CAUSEWAY_OK) {
    if (steps.validation_samples > 0) {
      const double loss = held_out_loss(steps.validation_samples);
      if ((status = causeway_worker_validated(worker, loss)) != CAUSEWAY_OK) return status;
      continue;
    }
    uint32_t taken = 0;
    double loss = 0;
    for (int called_back = 0; taken < steps.count; ++taken) {
      status = causeway_worker_called_back(worker, &called_back);
      if (status != CAUSEWAY_OK) return status;
      if (called_back) break;
      loss = step(seed, steps.first_sample + (uint64_t)taken * kBatch);
    }
    status = causeway_worker_done(worker, tensors, kTensors, taken, loss);
    if (status != CAUSEWAY_OK) return status;
  }
  return status;
}

int main(int count, char** arguments) {
  if (count != 3 && count != 5) {
    fprintf(stderr, "usage: wave REGION DIRECTORY [HOST:PORT CERTIFICATES]\n");
    return 2;
  }
  const char* const region = arguments[1];
  const struct causeway_settings settings = {.struct_size = sizeof settings,
                                             .region = region,
                                             .directory = arguments[2],
                                             .coordinator = count == 5 ? arguments[3] : NULL,
                                             .certificates = count == 5 ? arguments[4] : NULL,
                                             .samples_per_step = kBatch,
                                             .tokens_per_step = kBatch,
                                             .validates = 1};
  static const int64_t kColumn[] = {kHidden, 1}, kRow[] = {1, kHidden};
  static const int64_t kVector[] = {kHidden}, kOne[] = {1};
  const size_t size = sizeof(struct causeway_tensor);
  const struct causeway_tensor tensors[kTensors] = {
      {size, "hidden.weight", hidden_weight, 2, kColumn, NULL},
      {size, "hidden.bias", hidden_bias, 1, kVector, NULL},
      {size, "out.weight", out_weight, 2, kRow, NULL},
      {size, "out.bias", out_bias, 1, kOne, NULL}};

  initialise();
  printf("%s begins with loss %.4f\n", region, held_out_loss(1000));
  causeway_worker* worker = NULL;
  int status = causeway_worker_open(&settings, tensors, kTensors, &worker);
  const uint64_t seed = hash(kHashBegin, region, strlen(region)) % 100000 + 1;
  if (status == CAUSEWAY_OK) status = train(worker, tensors, seed);
  if (status != CAUSEWAY_RUN_OVER) fprintf(stderr, "wave: %s\n", causeway_last_error());
  causeway_worker_close(worker);
  if (status != CAUSEWAY_RUN_OVER) return 1;

  uint64_t bits = kHashBegin;  // regions that print the same hold the same
  bits = hash(bits, hidden_weight, sizeof hidden_weight);
  bits = hash(bits, hidden_bias, sizeof hidden_bias);
  bits = hash(bits, out_weight, sizeof out_weight);
  bits = hash(bits, out_bias, sizeof out_bias);
  printf("%s ends with loss %.4f, parameters %016llx\n", region, held_out_loss(1000),
         (unsigned long long)bits);
  return 0;
}
