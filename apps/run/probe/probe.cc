#include "apps/run/probe/probe.h"

#include <cmath>
#include <memory>

#include "diloco/maths/layout.h"
#include "diloco/pacing/time_model.h"
#include "intra/base/resources.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_state.h"
#include "intra/step/training_state.h"
#include "intra/worker/make_inner_trainer.h"

namespace causeway::run {
namespace {

constexpr std::uint32_t kWarmUpSteps = 3, kStepsMin = 8, kStepsMax = 400;

intra::WorkerOptions alone(const Config& config) {
  const RegionConfig& region = config.regions.front();
  intra::WorkerOptions options = worker_options(config, region.name, 0, {});
  options.train.batch /= region.workers;
  options.world = 1;
  return options;
}

class Bench {
 public:
  explicit Bench(const Config& config)
      : config_(config),
        options_(alone(config)),
        layout_(intra::parameter_tensors(options_.model)),
        state_(options_.inner, layout_),
        group_(intra::make_solo_collective()) {}

  void steps(const ProbeOptions& options, Probe& out) {
    const auto trainer = intra::make_inner_trainer(options_);
    intra::initial_weights(options_, layout_, state_.anchor);
    state_.params = state_.anchor;
    state_.digest = intra::whole_digest(state_);
    trainer->join(*group_, state_);
    const bool told = options.step_s > 0;
    std::vector<double> samples;
    double spent_s = 0;
    for (std::uint32_t i = 0; i < kStepsMax; ++i) {
      if (samples.size() >= kStepsMin && spent_s >= options.seconds) break;
      if (told && i >= kWarmUpSteps) break;  // enough for a pseudo-gradient
      const intra::InnerStep step{i, i * static_cast<std::uint64_t>(options_.train.batch)};
      const double took_s = intra::seconds_of([&] { trainer->step(step, false); });
      if (i >= kWarmUpSteps) samples.push_back(took_s);
      spent_s += took_s;
    }
    trainer->leave();
    out.step_s = options.step_s;
    if (!told) take_step_times(samples, out);
  }

  CodecProbe codec(const std::string& spec, const std::filesystem::path& directory) const {
    return bench_codec(config_, layout_, state_, spec, directory);
  }

  std::uint64_t parameters() const { return layout_.parameter_count(); }

 private:
  const Config& config_;
  intra::WorkerOptions options_;
  diloco::Layout layout_;
  intra::TrainingState state_;
  std::unique_ptr<intra::Collective> group_;
};

}  // namespace

// The deviation is that which half of the samples have from the median (of a normal distribution):
// what else happens to run here for a moment says nothing about the machine.
void take_step_times(const std::vector<double>& samples, Probe& out) {
  out.steps = static_cast<std::uint32_t>(samples.size());
  out.step_s = diloco::tuner::quantile(samples, 0.5);
  std::vector<double> deviations;
  for (const double s : samples) deviations.push_back(std::abs(s - out.step_s));
  out.step_deviation_s = 1.4826 * diloco::tuner::quantile(deviations, 0.5);
}

double probe_step_s(const Config& config, double seconds) {
  Probe out;
  Bench(config).steps({.seconds = seconds, .codecs = {}, .directory = {}}, out);
  return out.step_s;
}

Probe probe(const Config& config, const ProbeOptions& options) {
  Bench bench(config);
  Probe out;
  out.parameters = bench.parameters();
  out.timed_steps = config.train.timed_step_ms > 0;
  bench.steps(options, out);
  out.save_s = durable_write_s(options.directory, std::vector<std::byte>(kSmallWriteBytes));
  for (const std::string& spec : options.codecs)
    out.codecs.push_back(bench.codec(spec, options.directory));
  return out;
}

}  // namespace causeway::run
