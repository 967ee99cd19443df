// One training step of a GPT-2 on the CPU: ours, the bare oneDNN products of the same shapes, and a
// plain OpenMP reference, all in one run and interleaved, so that a busy machine slows all alike.
//
//   bench_train_step [124m|quickstart]... [--repeats N] [--no-reference] [--cpu-time]       honours
//   OMP_NUM_THREADS
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/reference_step.h"
#include "intra/base/adamw.h"
#include "intra/model/gemm.h"
#include "intra/model/model.h"

namespace causeway::bench {
namespace {

using intra::Batch;
using intra::LinearShape;
using intra::ModelOptions;

struct Shape {
  std::string name;
  ModelOptions options;
  std::int64_t batch, length;
  std::int64_t rows() const { return batch * length; }
};

Shape shape_named(const std::string& name) {
  if (name == "124m") {
    return {name,
            {.vocabulary = 50'257,
             .context = 1024,
             .layers = 12,
             .width = 768,
             .heads = 12,
             .kv_heads = 12,
             .hidden = 3072},
            4,
            64};
  }
  if (name == "quickstart") {  // of configs/quickstart.toml
    return {name,
            {.vocabulary = 256,
             .context = 64,
             .layers = 4,
             .width = 144,
             .heads = 4,
             .kv_heads = 4,
             .hidden = 576},
            8,
            64};
  }
  std::fprintf(stderr, "unknown shape '%s': give 124m or quickstart\n", name.c_str());
  std::exit(2);
}

// Wall-clock, or with `cpu` the processor time of all threads: on a machine busy with other work,
// the latter is what one thread would take.
double seconds(bool cpu, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const auto cpu_start = std::clock();
  work();
  if (cpu) return static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The linear layers of a step as oneDNN sees them, and nothing else.
class BareProducts {
 public:
  BareProducts(const Shape& shape, intra::Products products)
      : shape_(shape), gemm_(products), element_bytes_(intra::operand_bytes(products)) {
    const auto width = shape.options.width, hidden = shape.options.hidden;
    for (std::int64_t layer = 0; layer < shape.options.layers; ++layer) {
      add(width, 3 * width);
      add(width, width);
      add(width, hidden);
      add(hidden, width);
    }
    add(width, shape.options.vocabulary);
    const auto widest = static_cast<std::size_t>(
        shape.rows() * std::max(3 * width, std::max(hidden, shape.options.vocabulary)));
    activations_.resize(widest * element_bytes_);
    outputs_.resize(widest);
  }

  void run() {
    for (const auto& layer : layers_) {
      gemm_.forward(layer.shape, activations_.data(), layer.weight.data(), layer.bias.data(),
                    outputs_.data());
    }
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      gemm_.backward_weight(layer->shape, activations_.data(), activations_.data(),
                            layer->gradient.data(), false);
      gemm_.backward_input(layer->shape, activations_.data(), layer->weight.data(), outputs_.data(),
                           false);
    }
  }

  double flops() const {
    double sum = 0;
    for (const auto& layer : layers_)
      sum += 6.0 * static_cast<double>(shape_.rows() * layer.shape.in * layer.shape.out);
    return sum;
  }

 private:
  struct Layer {
    LinearShape shape;
    std::vector<std::byte> weight;
    std::vector<float> gradient, bias;
  };

  void add(std::int64_t in, std::int64_t out) {
    const auto count = static_cast<std::size_t>(in * out);
    layers_.push_back({{shape_.rows(), in, out, in, out},
                       std::vector<std::byte>(count * element_bytes_),
                       std::vector<float>(count),
                       std::vector<float>(static_cast<std::size_t>(out))});
  }

  const Shape& shape_;
  intra::Gemm gemm_;
  std::size_t element_bytes_;
  std::vector<Layer> layers_;
  std::vector<std::byte> activations_;
  std::vector<float> outputs_;
};

struct Tokens {
  explicit Tokens(const Shape& of) : batch_size(of.batch), length(of.length) {
    for (std::int64_t i = 0; i < of.rows(); ++i) {
      tokens.push_back(static_cast<std::int32_t>((i * 7919 + i * i) % of.options.vocabulary));
      targets.push_back(static_cast<std::int32_t>((i * 104'729 + 3) % of.options.vocabulary));
    }
  }
  Batch batch() const { return {tokens, targets, batch_size, length}; }
  std::int64_t batch_size, length;
  std::vector<std::int32_t> tokens, targets;
};

// What AdamW reads and writes of memory, 16 and 12 bytes a parameter, with hardly any arithmetic.
// In bf16 a step also writes 2 bytes of rounded weights, which are not among them.
class MovesOfAdamW {
 public:
  explicit MovesOfAdamW(std::size_t count) : params_(count), first_(count), second_(count) {}

  void run(std::span<const float> gradients) {
    float* params = params_.data();
    float* first = first_.data();
    float* second = second_.data();
#pragma omp parallel for simd schedule(static)
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      params[i] += gradients[i];
      first[i] += gradients[i];
      second[i] += gradients[i];
    }
  }

 private:
  std::vector<float> params_, first_, second_;
};

// Times by name; the middle one of the repeats counts.
class Times {
 public:
  explicit Times(bool cpu) : cpu_(cpu) {}
  void measure(const std::string& name, const std::function<void()>& work) {
    all_[name].push_back(seconds(cpu_, work));
  }
  double median(const std::string& name) const {
    auto sorted = all_.at(name);
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }

 private:
  bool cpu_;
  std::map<std::string, std::vector<double>> all_;
};

struct Settings {
  int repeats = 7;
  bool reference = true;
  bool cpu_time = false;
};

void print_line(const char* name, double step_seconds, double tokens, double flops) {
  std::printf("  %-34s %9.2f ms %10.1f tokens/s %8.1f GFLOP/s\n", name, 1e3 * step_seconds,
              tokens / step_seconds, flops / step_seconds / 1e9);
}

double report(const Shape& shape, const Times& times, const BareProducts& products) {
  const auto tokens = static_cast<double>(shape.rows());
  const double step = times.median("train"), forward = times.median("evaluate");
  const double optimizer = times.median("optimizer"), bare = times.median("products");
  auto at_length = shape.options;
  at_length.context = shape.length;
  const double flops = intra::flops_per_token(at_length) * tokens;
  print_line("step without optimizer", step, tokens, flops);
  print_line("step with AdamW", step + optimizer, tokens, flops);
  std::printf("  %-34s forward %.2f, backward %.2f, optimizer %.2f ms\n", "split", 1e3 * forward,
              1e3 * (step - forward), 1e3 * optimizer);
  print_line("bare oneDNN products", bare, tokens, products.flops());
  std::printf("  %-34s %.2f without optimizer, %.2f with\n", "fraction of the products' speed",
              bare / step, bare / (step + optimizer));
  const double moves = times.median("moves");
  std::printf("  %-34s %9.2f ms; with them the products have %.2f of their speed\n",
              "AdamW's reads and writes alone", 1e3 * moves, bare / (bare + moves));
  return step;
}

void check_reference(float ours, float reference) {
  if (std::abs(ours - reference) < 1e-3F) return;
  std::fprintf(stderr, "the reference computes another loss: %f, ours %f\n", reference, ours);
  std::exit(1);
}

// `step`: seconds of ours without the optimizer.
void report_reference(const Shape& shape, const Times& times, double step) {
  const double plain = times.median("reference"),
               with_update = plain + times.median("reference update");
  const auto count = static_cast<double>(shape.rows());
  std::printf("  %-34s %9.2f ms %10.1f tokens/s; with AdamW %.1f\n", "plain OpenMP reference",
              1e3 * plain, count / plain, count / with_update);
  std::printf("  %-34s %.1f without optimizer, %.1f with\n", "times the reference", plain / step,
              with_update / (step + times.median("optimizer")));
}

void print_heading(const Shape& shape, bool fp32, intra::Products kind) {
  std::printf(
      "%s, B=%ld, T=%ld, %s%s, %d threads\n", shape.name.c_str(), static_cast<long>(shape.batch),
      static_cast<long>(shape.length), fp32 ? "fp32" : "bf16",
      kind == intra::Products::bf16_emulated ? " (emulated: rounded operands, fp32 products)" : "",
      omp_get_max_threads());
}

void bench(Shape shape, ModelOptions::Precision precision, const Settings& settings) {
  shape.options.precision = precision;
  const bool fp32 = precision == ModelOptions::Precision::fp32;
  const auto kind = intra::choose_products(precision);
  print_heading(shape, fp32, kind);
  const auto model = intra::make_model(shape.options);
  const auto& layout = model->layout();
  std::vector<float> params(layout.size()), gradients(layout.size());
  model->initialise(1, params);
  intra::AdamW adamw({}, layout);
  MovesOfAdamW moves(layout.size());
  BareProducts products(shape, kind);
  ReferenceStep reference(shape.options, layout, shape.batch, shape.length);
  const Tokens tokens(shape);
  const bool with_reference = settings.reference && fp32;
  std::vector<float> unused_params(with_reference ? layout.size() : 0);

  Times times(settings.cpu_time);
  for (int repeat = -1; repeat < settings.repeats; ++repeat) {
    Times warm_up(settings.cpu_time);
    Times& into = repeat < 0 ? warm_up : times;
    const bool compares = with_reference && repeat < 3;  // it is slow
    float loss = 0, reference_loss = 0;
    if (compares) {
      std::ranges::fill(gradients, 0.0F);
      into.measure("reference", [&] {
        reference_loss = reference.run(tokens.batch(), params.data(), gradients.data());
      });
      into.measure("reference update", [&] { reference.update(unused_params, gradients); });
    }
    into.measure("train", [&] {
      model->clear_gradients(gradients);
      loss = model->train(tokens.batch(), {}, 1, params, gradients, {});
    });
    into.measure("evaluate", [&] { model->evaluate(tokens.batch(), params); });
    into.measure("products", [&] { products.run(); });
    if (compares) check_reference(loss, reference_loss);
    into.measure("moves", [&] { moves.run(gradients); });
    into.measure("optimizer", [&] {
      adamw.step(
          static_cast<std::uint64_t>(repeat + 1), 1e-5F, 1, params, gradients,
          [&](std::size_t begin, std::size_t end) { model->params_changed(params, begin, end); });
    });
  }
  const double step = report(shape, times, products);
  if (with_reference) report_reference(shape, times, step);
}

int run(int argc, char** argv) {
  Settings settings;
  std::vector<Shape> shapes;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--no-reference") {
      settings.reference = false;
    } else if (argument == "--cpu-time") {
      settings.cpu_time = true;
    } else if (argument == "--repeats" && i + 1 < argc) {
      settings.repeats = std::max(1, std::atoi(argv[++i]));
    } else {
      shapes.push_back(shape_named(argument));
    }
  }
  if (shapes.empty()) shapes = {shape_named("quickstart"), shape_named("124m")};
  for (const auto& shape : shapes) {
    bench(shape, ModelOptions::Precision::fp32, settings);
    bench(shape, ModelOptions::Precision::bf16, settings);
  }
  return 0;
}

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) {
  return causeway::bench::run(argc, argv);
}
