#include "apps/run/probe/probe.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "apps/run/probe/runs.h"
#include "apps/run/region/region_files.h"
#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "diloco/files/archive.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "diloco/pacing/time_model.h"
#include "intra/base/resources.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_file.h"
#include "intra/step/training_state.h"
#include "intra/worker/region_worker.h"

namespace causeway::run {
namespace {

constexpr int kRepetitions = 7;
constexpr int kWrites = 9;

// Encodes the pseudo-gradient and applies it as every region's. The best of a few counts: whatever
// else runs here only adds to it.
void exchange(const Config& config, const intra::OuterRound& round, intra::OuterState& state,
              intra::OuterSpans& spans, CodecProbe& out) {
  const auto alone = intra::make_solo_collective();
  state.work = {.data_cursor = 0, .steps = 1, .compute_s = state.work.compute_s};
  intra::Encoding encoding;
  out.encode_s = std::min(out.encode_s, intra::seconds_of([&] {
                            encoding = round.encode(*alone, {1, 1}, state, spans);
                          }));
  const intra::InFlight made = *state.own(encoding.part);
  out.payload_bytes = made.payload.bytes().size();
  compression::EncodeStats stats;
  for (const intra::TensorEncoding& tensor : encoding.tensors) stats += tensor.stats;
  out.relative_squared_error = stats.relative_squared_error();

  diloco::CommitRecord record;
  record.round = state.version;
  record.state = state.digest;
  std::vector<std::span<const std::byte>> payloads;
  const auto share = 1.0F / static_cast<float>(config.regions.size());
  for (const RegionConfig& region : config.regions) {
    record.participants.push_back({.region = region.name,
                                   .round = state.version,
                                   .weight = share,
                                   .payload = made.identified().payload});
    payloads.push_back(made.payload.bytes());
  }
  out.apply_s = std::min(
      out.apply_s, intra::seconds_of([&] { round.apply(*alone, record, payloads, state, spans); }));
}

}  // namespace

CodecProbe bench_codec(const Config& config, const diloco::Layout& layout,
                       const intra::OuterState& state, const std::string& codec,
                       const std::filesystem::path& directory) {
  intra::CodecOptions options = config.codec;
  options.matrix = codec;
  if (compression::make_codec(codec)->is_sparse()) options.feedback = true;
  const intra::OuterRound round(
      {.region = config.regions.front().name, .region_index = 0, .seed = config.train.seed},
      options, config.outer, {}, layout);
  CodecProbe out{.codec = codec, .encode_s = 1e9, .apply_s = 1e9};
  intra::OuterState trial = state;
  intra::HostSpans spans(layout, trial);
  for (int i = 0; i < kRepetitions; ++i) {
    trial = state;
    exchange(config, round, trial, spans, out);
  }
  out.store_s = durable_write_s(directory, std::vector<std::byte>(out.payload_bytes));
  out.bits_per_parameter = 8.0 * double(out.payload_bytes) / double(layout.parameter_count());
  return out;
}

double durable_write_s(const std::filesystem::path& directory, std::span<const std::byte> content) {
  std::filesystem::create_directories(directory);
  const auto file = directory / "probe";
  std::vector<double> samples;
  for (int i = 0; i < kWrites; ++i) {
    samples.push_back(intra::seconds_of([&] {
      (void)diloco::sha256(content);
      diloco::replace_file(file, content, diloco::Durability::on_disk);
    }));
  }
  std::filesystem::remove(file);
  return diloco::tuner::quantile(samples, 0.5);
}

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

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kStepsOfRound = 2, kRounds = 12;
constexpr std::size_t kRoundsOfWarmUp = 2;  // a program warms up

// One region of the configuration, which sends its parameters as they are to nobody.
Config short_run(Config config) {
  config.regions.resize(1);
  config.sync = {.founder = config.regions.front().name};
  config.witness.name.clear();
  config.codec = {};
  config.codec.matrix = config.codec.vector = "dense:fp32";
  config.outer = {.kind = diloco::OuterOptions::Kind::sgd, .lr = 1};
  config.outer_kind = config.outer.kind;
  config.overlap = {};
  config.train.k = kStepsOfRound;
  config.train.steps = std::uint64_t{kStepsOfRound} * kRounds;
  config.keeps_all = true;  // the state that it began with
  return config;
}

std::vector<double> step_times(const fs::path& region) {
  std::vector<double> times_s;
  const std::vector<RoundEvent> rounds = read_rounds(region);
  for (std::size_t i = kRoundsOfWarmUp; i < rounds.size(); ++i)
    times_s.push_back((rounds[i].compute_s - rounds[i - 1].compute_s) / kStepsOfRound);
  return times_s;
}

std::vector<float> read_anchor(const fs::path& file, const diloco::Layout& layout) {
  std::vector<float> anchor(layout.size());
  intra::StateReader(file).read("anchor", std::span<float>(anchor));
  return anchor;
}

}  // namespace

Probe probe_recorded(const Config& config, const fs::path& run, const ProbeOptions& options) {
  const fs::path region = run / "regions" / config.regions.front().name;
  const intra::StateReader last(intra::snapshot_file(region));
  const auto layout = intra::parse_tensors(last.get("tensors"), last.get("layout"));
  if (!layout) last.refuse("it names other tensors than it holds");
  intra::OuterState state(*layout);
  state.params = read_anchor(last.file(), *layout);
  // Without the first one any delta must do: it tells nothing of the codec's error.
  const fs::path first = diloco::archived_state(region, 0);
  if (fs::exists(first)) state.anchor = read_anchor(first, *layout);
  state.digest = intra::whole_digest(state);

  Probe out;
  out.parameters = layout->parameter_count();
  out.step_s = options.step_s;
  out.save_s = durable_write_s(options.directory, std::vector<std::byte>(kSmallWriteBytes));
  for (const std::string& codec : options.codecs)
    out.codecs.push_back(bench_codec(config, *layout, state, codec, options.directory));
  return out;
}

Probe probe_program(const Config& config, const ProgramToProbe& program,
                    const ProbeOptions& options) {
  fs::remove_all(program.directory);
  fs::create_directories(program.directory);
  const fs::path file = program.directory / "config.toml";
  write_text_file(file, to_toml(short_run(config)));
  const RealRuns runs{.config = file,
                      .overrides = {},
                      .program = program.causeway,
                      .directory = program.directory,
                      .worker = program.worker};
  runs.run("run", {}, {});
  const fs::path run = runs.path("run");
  Probe out = probe_recorded(config, run, options);
  const std::vector<double> times_s = step_times(run / "regions" / config.regions.front().name);
  if (times_s.empty()) throw RunError(run.string() + ": the program's run has no rounds");
  if (options.step_s > 0) return out;
  take_step_times(times_s, out);
  // Each of these times is the mean of several steps.
  out.steps *= kStepsOfRound;
  out.step_deviation_s *= std::sqrt(double(kStepsOfRound));
  return out;
}

}  // namespace causeway::run
