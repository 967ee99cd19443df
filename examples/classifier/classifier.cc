// A trainer that is not Causeway's own takes part in a run: a small network that learns to tell
// which of eight places a noisy point in the plane came from. Plain loops, plain SGD; nothing here
// knows how regions agree.
//
//   classifier                                             started by `causeway simulate --worker`
//   classifier REGION DIRECTORY                            next to that region's coordinator
//   classifier REGION DIRECTORY HOST:PORT CERTIFICATES     on another host
#include <causeway/worker.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numbers>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kInputs = 2, kHidden = 64, kClasses = 8, kBatch = 32;
constexpr float kLearningRate = 0.1F;

// Where each tensor lies in the parameters.
constexpr std::size_t kHiddenBias = kHidden * kInputs;
constexpr std::size_t kOut = kHiddenBias + kHidden;
constexpr std::size_t kOutBias = kOut + kClasses * kHidden;
constexpr std::size_t kParameters = kOutBias + kClasses;

std::vector<causeway::Tensor> tensors() {
  return {{"hidden.weight", {kHidden, kInputs}},
          {"hidden.bias", {kHidden}},
          {"out.weight", {kClasses, kHidden}},
          {"out.bias", {kClasses}}};
}

// In [0, 1), the same for the same key everywhere (splitmix64).
float uniform(std::uint64_t key) {
  key += 0x9E3779B97F4A7C15ULL;
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ULL;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<float>((key ^ (key >> 31)) >> 40) * 0x1p-24F;
}

struct Sample {
  std::array<float, kInputs> point;
  std::size_t place;
};

// Sample `index` of a region: points scattered around eight places on a circle.
Sample sample(std::uint64_t region_seed, std::uint64_t index) {
  const std::uint64_t key = (region_seed << 40) + 8 * index;
  const auto place = static_cast<std::size_t>(uniform(key) * kClasses);
  const float angle = 2 * std::numbers::pi_v<float> * static_cast<float>(place) / kClasses;
  const auto noise = [key](int i) { return 0.5F * (uniform(key + i) + uniform(key + i + 1) - 1); };
  return {{std::cos(angle) + noise(1), std::sin(angle) + noise(3)}, place};
}

std::vector<float> initial_parameters() {
  std::vector<float> params(kParameters);
  for (std::size_t i = 0; i < kHiddenBias; ++i) params[i] = 2 * uniform(i) - 1;
  for (std::size_t i = kOut; i < kOutBias; ++i) params[i] = 0.2F * uniform(i) - 0.1F;
  return params;
}

// The loss of one sample; adds its gradient to `gradient` if there is one.
float learn(const Sample& sample, std::span<const float> params, std::span<float> gradient) {
  std::array<float, kHidden> hidden;
  for (std::size_t h = 0; h < kHidden; ++h) {
    const float* weight = &params[h * kInputs];
    hidden[h] = std::tanh(params[kHiddenBias + h] + weight[0] * sample.point[0] +
                          weight[1] * sample.point[1]);
  }
  std::array<float, kClasses> out;
  float sum = 0;
  for (std::size_t c = 0; c < kClasses; ++c) {
    float logit = params[kOutBias + c];
    for (std::size_t h = 0; h < kHidden; ++h) logit += params[kOut + c * kHidden + h] * hidden[h];
    sum += out[c] = std::exp(logit);
  }
  const float loss = -std::log(out[sample.place] / sum);
  if (gradient.empty()) return loss;

  std::array<float, kHidden> back{};
  for (std::size_t c = 0; c < kClasses; ++c) {
    const float error = out[c] / sum - (c == sample.place ? 1.0F : 0.0F);
    gradient[kOutBias + c] += error;
    for (std::size_t h = 0; h < kHidden; ++h) {
      gradient[kOut + c * kHidden + h] += error * hidden[h];
      back[h] += error * params[kOut + c * kHidden + h];
    }
  }
  for (std::size_t h = 0; h < kHidden; ++h) {
    const float error = back[h] * (1 - hidden[h] * hidden[h]);
    gradient[kHiddenBias + h] += error;
    for (std::size_t i = 0; i < kInputs; ++i) gradient[h * kInputs + i] += error * sample.point[i];
  }
  return loss;
}

// One inner step; returns the mean loss of its batch.
float step(std::uint64_t region_seed, std::uint64_t first_sample, std::span<float> params) {
  std::vector<float> gradient(kParameters);
  float loss = 0;
  for (std::size_t i = 0; i < kBatch; ++i)
    loss += learn(sample(region_seed, first_sample + i), params, gradient) / kBatch;
  for (std::size_t i = 0; i < kParameters; ++i) params[i] -= kLearningRate * gradient[i] / kBatch;
  return loss;
}

// On samples that no region trains on.
float held_out_loss(std::span<const float> params) {
  constexpr int kSamples = 1000;
  float loss = 0;
  for (int i = 0; i < kSamples; ++i) loss += learn(sample(0, i), params, {}) / kSamples;
  return loss;
}

// FNV-1a of the bits: regions that print the same hold the same.
std::uint64_t fingerprint(std::span<const float> params) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const std::byte byte : std::as_bytes(params))
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3ULL;
  return hash;
}

void train(const std::string& region, const std::string& directory, const std::string& coordinator,
           const std::string& certificates) {
  std::vector<float> params = initial_parameters();
  std::uint64_t region_seed = 0;
  for (const char c : region) region_seed = region_seed * 31 + static_cast<unsigned char>(c);
  region_seed = region_seed % 100'000 + 1;

  std::printf("%s begins with loss %.4f\n", region.c_str(), held_out_loss(params));
  causeway::Worker worker({.region = region,
                           .directory = directory,
                           .coordinator = coordinator,
                           .certificates = certificates,
                           .tensors = tensors(),
                           .samples_per_step = kBatch,
                           .tokens_per_step = kBatch},
                          params);
  while (const auto steps = worker.next(params)) {
    std::uint32_t taken = 0;
    float loss = 0;
    for (; taken < steps->count && !worker.called_back(); ++taken)
      loss = step(region_seed, steps->first_sample + taken * kBatch, params);
    worker.done(params, taken, loss);
  }
  std::printf("%s ends with loss %.4f, parameters %016llx\n", region.c_str(), held_out_loss(params),
              static_cast<unsigned long long>(fingerprint(params)));
}

}  // namespace

int main(int count, char** arguments) {
  const char* const region = count > 1 ? arguments[1] : std::getenv("CAUSEWAY_REGION");
  const char* const directory = count > 2 ? arguments[2] : std::getenv("CAUSEWAY_DIRECTORY");
  if ((count != 1 && count != 3 && count != 5) || region == nullptr || directory == nullptr) {
    std::fprintf(stderr,
                 "usage: classifier REGION DIRECTORY [HOST:PORT CERTIFICATES], or no word of that "
                 "with CAUSEWAY_REGION and CAUSEWAY_DIRECTORY set\n");
    return 2;
  }
  const bool elsewhere = count == 5;
  try {
    train(region, directory, elsewhere ? arguments[3] : "", elsewhere ? arguments[4] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "classifier: %s\n", error.what());
    return 1;
  }
}
