// noise_worker CONFIG REGION DIRECTORY: takes part in a run of `causeway worker`s as the worker of
// one region, with its model's tensors, and contributes random numbers of the size of real steps.
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

#include "apps/run/config/config.h"
#include "diloco/maths/layout.h"
#include "intra/model/model.h"
#include "intra/worker/worker.h"

namespace {

constexpr float kSize = 5e-3F;  // about what K steps of AdamW change

std::vector<causeway::Tensor> tensors_of(const causeway::intra::ModelOptions& model) {
  std::vector<causeway::Tensor> tensors;
  for (const auto& spec : causeway::intra::parameter_tensors(model))
    tensors.push_back({spec.name, {spec.shape.begin(), spec.shape.end()}});
  return tensors;
}

std::size_t elements_of(const std::vector<causeway::Tensor>& tensors) {
  std::size_t elements = 0;
  for (const causeway::Tensor& tensor : tensors) {
    std::size_t count = 1;
    for (const auto extent : tensor.shape) count *= static_cast<std::size_t>(extent);
    elements += count;
  }
  return elements;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) return 2;
  const causeway::run::Config config = causeway::run::load_config(argv[1], {});
  causeway::WorkerSettings settings;
  settings.region = argv[2];
  settings.directory = argv[3];
  settings.tensors = tensors_of(config.model);
  settings.samples_per_step = static_cast<std::uint64_t>(config.train.batch);
  settings.tokens_per_step =
      settings.samples_per_step * static_cast<std::uint64_t>(config.model.context);
  settings.save_rounds = config.train.checkpoint_rounds;
  std::vector<float> params(elements_of(settings.tensors));
  causeway::Worker worker(settings, params);
  std::mt19937_64 chance(1);
  std::normal_distribution<float> noise(0, kSize);
  while (const auto steps = worker.next(params)) {
    for (float& param : params) param += noise(chance);
    worker.done(params, steps->count, 5);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
