// A model and a text so small that a run takes milliseconds.
#pragma once

#include <string>

#include "intra/step/worker_options.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {

// About ten thousand parameters, batches of six sequences of eight tokens.
inline WorkerOptions tiny_options(const TemporaryDirectory& directory) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text.append("the quick brown fox ").append(std::to_string(i * 7919 % 1000)).push_back('\n');
  }
  WorkerOptions options;
  options.model = {.vocabulary = 256,
                   .context = 8,
                   .layers = 1,
                   .width = 16,
                   .heads = 2,
                   .kv_heads = 2,
                   .hidden = 32};
  options.data = {.files = {directory.file("text", text)}};
  options.inner.lr = 1e-2F;
  options.inner.warmup_steps = 1;
  options.train.batch = 6;
  options.train.validation_sequences = 32;
  return options;
}

}  // namespace causeway::intra
