// One training step of GPT-2 124M in bf16 on a GPU, optimizer included, beside the rate of one
// large matrix product in the same run. The peer is train_step_torch.py. With --round, steps beside
// which a contribution is encoded, one in five, against the others, and what applying a record
// takes.
//
//   bench_train_step_gpu [--batch N] [--micro-batches N] [--steps N] [--warm-up N]
//                        [--recompute 0|1|2] [--muon] [--no-graphs] [--plain-attention]
//                        [--time-products FILE] [--round CODEC]
//
// With --time-products the fastest algorithm of each product is taken, as FILE has it or as it is
// timed now, and all are printed.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/step/device_stepper.h"
#include "intra/model/model.h"
#include "intra/outer/outer_round.h"
#include "intra/step/peak_flops.h"

namespace causeway::bench {
namespace {

using intra::cuda::CudaBackend;
using intra::cuda::CudaOptions;

struct Settings {
  std::int64_t batch = 64;  // sequences of 1,024 tokens in a micro-batch
  std::uint32_t micro_batches = 1;
  int steps = 100, warm_up = 20;
  std::int32_t recompute = 0;
  bool muon = false;
  std::string round_codec;  // empty: no rounds
  CudaOptions cuda;
};

constexpr int kStepsPerRound = 5;

intra::WorkerOptions gpt2_124m(const Settings& settings) {
  intra::WorkerOptions options;
  options.model = {.vocabulary = 50'257,
                   .context = 1024,
                   .layers = 12,
                   .width = 768,
                   .heads = 12,
                   .kv_heads = 12,
                   .hidden = 3072,
                   .precision = intra::ModelOptions::Precision::bf16};
  options.train.batch = settings.batch * settings.micro_batches;
  options.train.micro_batches = settings.micro_batches;
  options.train.recompute = settings.recompute;
  if (settings.muon) options.inner.optimizer = intra::InnerOptions::Optimizer::muon;
  if (settings.round_codec.empty()) return options;
  options.overlap.variant = diloco::OverlapOptions::Variant::streaming;
  options.codec.matrix = options.codec.vector = settings.round_codec;
  return options;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Operations per second of products of 8192 x 8192 bf16 matrices.
double product_rate(CudaBackend& backend) {
  constexpr std::int64_t kSize = 8192;
  constexpr int kRepeats = 20;
  constexpr std::size_t kBytes = kSize * kSize * 2;
  intra::cuda::Product product;
  product.m = product.n = product.k = kSize;
  // Random numbers, as in training: a GPU multiplies zeros faster, because that takes less power.
  const auto random_operand = [&](bool transposed) {
    std::mt19937 chance(transposed ? 1 : 2);
    std::normal_distribution<float> normal;
    std::vector<intra::cuda::Bfloat16> values(kSize * kSize);
    for (auto& value : values) intra::cuda::store(normal(chance), value);
    std::byte* on_device = backend.allocate(kBytes);
    backend.upload(values.data(), on_device, kBytes);
    return intra::cuda::Product::Operand{on_device, kSize, transposed};
  };
  product.a = random_operand(false);
  product.b = random_operand(true);
  product.c = backend.allocate(kBytes);
  product.c_stride = kSize;
  for (int i = 0; i < 3; ++i) backend.multiply(product);
  const intra::cuda::Event start(true), end(true);
  backend.stream().record(start);
  for (int i = 0; i < kRepeats; ++i) backend.multiply(product);
  backend.stream().record(end);
  end.synchronize();
  const double seconds = end.milliseconds_since(start) / 1e3 / kRepeats;
  return 2.0 * kSize * kSize * kSize / seconds;
}

// As often as words of a text: the token of rank r in proportion to 1 / (r + 1) (Zipf's law).
struct Tokens {
  explicit Tokens(std::size_t count) : tokens(count), targets(count) {
    std::vector<double> weights(50'257);
    for (std::size_t rank = 0; rank < weights.size(); ++rank)
      weights[rank] = 1 / static_cast<double>(rank + 1);
    std::mt19937 chance(1);
    std::discrete_distribution<std::int32_t> token(weights.begin(), weights.end());
    for (std::size_t i = 0; i < count; ++i) {
      tokens[i] = token(chance);
      targets[i] = token(chance);
    }
  }
  std::vector<std::int32_t> tokens, targets;
};

// The outer rounds of two regions that contribute the same.
class Rounds {
 public:
  Rounds(const intra::WorkerOptions& options, const diloco::Layout& layout,
         intra::Collective& group, intra::OuterSpans* spans, intra::TrainingState& state)
      : round_({.region = "us"}, options.codec, {}, options.overlap, layout),
        group_(group),
        spans_(*spans),
        state_(state) {
    state_.digest = whole_digest(state_);
  }

  // With the rest beside the next step.
  void contribute(intra::HostWork& beside) {
    state_.work.steps = kStepsPerRound;
    made_ = round_.take_delta(group_, {}, state_, spans_);
    beside.put([this] { round_.encode_delta(group_, state_, spans_, made_); });
  }

  void apply() {
    const intra::InFlight own = *state_.own(made_.part);
    diloco::CommitRecord record;
    record.round = state_.version;
    record.state = state_.digest;
    for (const char* region : {"eu", "us"}) {
      record.participants.push_back({.region = region,
                                     .round = state_.version,
                                     .weight = 0.5F,
                                     .payload = own.identified().payload});
    }
    const std::vector<std::span<const std::byte>> payloads(2, own.payload.bytes());
    round_.apply(group_, record, payloads, state_, spans_);
  }

 private:
  intra::OuterRound round_;
  intra::Collective& group_;
  intra::OuterSpans& spans_;
  intra::TrainingState& state_;
  intra::Encoding made_;
};

struct Measured {
  std::vector<double> seconds, beside_a_round;  // of every step after the warm-up
  std::vector<double> applying;                 // of every round after it
  double first_loss = 0, last_loss = 0;
};

Measured take_steps(const Settings& settings, const intra::WorkerOptions& options,
                    intra::Stepper& stepper, intra::TrainingState& state, Rounds* rounds) {
  const Tokens batch(static_cast<std::size_t>(settings.batch * options.model.context));
  const float scale = 1.0F / static_cast<float>(settings.micro_batches);
  Measured measured;
  for (int step = 0; step < settings.warm_up + settings.steps; ++step) {
    const bool contributes = rounds != nullptr && step > 0 && step % kStepsPerRound == 0;
    const auto start = std::chrono::steady_clock::now();
    if (contributes) rounds->contribute(stepper.host_work());
    stepper.begin(1e-4F);
    for (std::uint32_t micro = 0; micro < settings.micro_batches; ++micro) {
      stepper.accumulate({batch.tokens, batch.targets, settings.batch, options.model.context}, {},
                         scale, micro + 1 == settings.micro_batches);
    }
    measured.last_loss = stepper.finish().loss;
    stepper.update();
    ++state.optimizer_steps;
    if (step == 0) measured.first_loss = measured.last_loss;
    const double took_s = seconds_since(start);
    if (rounds != nullptr && step % kStepsPerRound == 2 && step > kStepsPerRound) {
      const auto began = std::chrono::steady_clock::now();
      rounds->apply();
      if (step >= settings.warm_up) measured.applying.push_back(seconds_since(began));
    }
    if (step < settings.warm_up) continue;
    (contributes ? measured.beside_a_round : measured.seconds).push_back(took_s);
  }
  return measured;
}

void report_rounds(const Settings& settings, double step, const Measured& measured) {
  constexpr int kSteps = 30;
  const double beside = median(measured.beside_a_round), apply = median(measured.applying);
  std::printf("  %s: step beside which it is encoded %.2f ms, applying two %.2f ms;\n",
              settings.round_codec.c_str(), 1e3 * beside, 1e3 * apply);
  std::printf("  by these medians a round of %d steps takes %+.2f %% for it\n", kSteps,
              100 * (beside - step + apply) / (kSteps * step));
}

// `product`: operations per second of large products on this device.
void report(const Settings& settings, const intra::ModelOptions& model, const std::string& device,
            const Measured& measured, double product) {
  const double step = median(measured.seconds);
  const double tokens =
      static_cast<double>(settings.batch * model.context) * settings.micro_batches;
  const double rate = tokens * flops_per_token(model) / step;
  std::printf("%s, GPT-2 124M, bf16, B=%ld x %u, T=1024, recompute %d, %s\n", device.c_str(),
              static_cast<long>(settings.batch), settings.micro_batches, settings.recompute,
              settings.muon ? "Muon" : "AdamW");
  std::printf("  step          %9.2f ms   (%.2f to %.2f), loss %.4f -> %.4f\n", 1e3 * step,
              1e3 * *std::ranges::min_element(measured.seconds),
              1e3 * *std::ranges::max_element(measured.seconds), measured.first_loss,
              measured.last_loss);
  std::printf("  tokens/s      %9.0f\n", tokens / step);
  std::printf("  TFLOP/s       %9.1f      of 8192^3 products: %.1f (%.1f %%)\n", rate / 1e12,
              product / 1e12, 100 * rate / product);
  const auto mfu = model_flops_utilisation(model, tokens / step, device, 1);
  if (mfu) {
    std::printf("  MFU           %9.1f %%\n", 100 * *mfu);
  } else {
    std::printf("  MFU             unknown      no peak is known for this device\n");
  }
  if (!measured.applying.empty()) report_rounds(settings, step, measured);
}

int run(const Settings& settings) {
  const double product = [&] {
    CudaBackend backend(0, settings.cuda);
    return product_rate(backend);
  }();
  const intra::WorkerOptions options = gpt2_124m(settings);
  const diloco::Layout layout(parameter_tensors(options.model));
  intra::TrainingState state(options.inner, layout);
  const auto group = intra::make_solo_collective();
  const auto stepper =
      intra::cuda::make_device_stepper(options, std::make_unique<CudaBackend>(0, settings.cuda));
  const std::string device = stepper->device();
  initialise_parameters(options.model, layout, 1, state.params);
  state.anchor = state.params;
  stepper->join(*group, state);

  std::optional<Rounds> rounds;
  if (!settings.round_codec.empty())
    rounds.emplace(options, layout, *group, stepper->outer_spans(), state);
  const Measured measured =
      take_steps(settings, options, *stepper, state, rounds ? &*rounds : nullptr);
  report(settings, options.model, device, measured, product);
  return 0;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::max(0, std::atoi(argv[++i])) : 0; };
    if (argument == "--batch") {
      settings.batch = std::max(1, number());
    } else if (argument == "--micro-batches") {
      settings.micro_batches = static_cast<std::uint32_t>(std::max(1, number()));
    } else if (argument == "--steps") {
      settings.steps = std::max(1, number());
    } else if (argument == "--warm-up") {
      settings.warm_up = number();
    } else if (argument == "--recompute") {
      settings.recompute = number();
    } else if (argument == "--round") {
      settings.round_codec = i + 1 < argc ? argv[++i] : "";
    } else if (argument == "--muon") {
      settings.muon = true;
    } else if (argument == "--no-graphs") {
      settings.cuda.graphs = false;
    } else if (argument == "--plain-attention") {
      settings.cuda.fused_attention = false;
    } else if (argument == "--time-products" && i + 1 < argc) {
      settings.cuda.kept_algorithms = argv[++i];
      spdlog::set_level(spdlog::level::debug);
    } else {
      std::fprintf(stderr, "unknown argument %s; see the top of bench/train_step_gpu.cc\n",
                   argv[i]);
      std::exit(2);
    }
  }
  return settings;
}

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) {
  try {
    return causeway::bench::run(causeway::bench::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_train_step_gpu: %s\n", error.what());
    return 1;
  }
}
