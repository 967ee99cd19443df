#include "apps/run/tune/probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "diloco/pacing/link_fit.h"
#include "intra/base/stopwatch.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/step/training_state.h"
#include "intra/worker/make_inner_trainer.h"

namespace causeway::run {
namespace {

constexpr std::uint32_t kWarmUpSteps = 3, kStepsMin = 8, kStepsMax = 400;
constexpr int kRepetitions = 7;
constexpr int kWrites = 9;
constexpr std::size_t kSmallBytes = 1000;  // a record, a vote

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
    if (!told) summarize(samples, out);
  }

  CodecProbe codec(const std::string& spec, const std::filesystem::path& directory) {
    intra::CodecOptions codec = config_.codec;
    codec.matrix = spec;
    if (compression::make_codec(spec)->is_sparse()) codec.feedback = true;
    const intra::OuterRound round(
        {.region = options_.region, .region_index = 0, .seed = options_.train.seed}, codec,
        config_.outer, {}, layout_);
    CodecProbe out{.codec = spec, .encode_s = 1e9, .apply_s = 1e9};
    for (int i = 0; i < kRepetitions; ++i) exchange(round, out);
    out.store_s = durable_write_s(directory, std::vector<std::byte>(out.payload_bytes));
    out.bits_per_parameter = 8.0 * double(out.payload_bytes) / double(layout_.parameter_count());
    return out;
  }

  std::uint64_t parameters() const { return layout_.parameter_count(); }

  // The median: a disk has good and bad moments.
  static double durable_write_s(const std::filesystem::path& directory,
                                std::span<const std::byte> content) {
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

 private:
  // The median, and the deviation that half of the samples have from it (of a normal distribution):
  // what else happens to run here for a moment says nothing about the machine.
  static void summarize(const std::vector<double>& samples, Probe& out) {
    out.steps = static_cast<std::uint32_t>(samples.size());
    out.step_s = diloco::tuner::quantile(samples, 0.5);
    std::vector<double> deviations;
    for (const double s : samples) deviations.push_back(std::abs(s - out.step_s));
    out.step_deviation_s = 1.4826 * diloco::tuner::quantile(deviations, 0.5);
  }

  // Encodes the pseudo-gradient and applies it as every region's. The best of a few counts:
  // whatever else runs here only adds to it.
  void exchange(const intra::OuterRound& round, CodecProbe& out) {
    intra::OuterState state = state_;
    state.work = {.data_cursor = 0, .steps = 1, .compute_s = state_.work.compute_s};
    intra::Encoding encoding;
    out.encode_s = std::min(out.encode_s, intra::seconds_of([&] {
                              encoding = round.encode(*group_, {1, 1}, state);
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
    const auto share = 1.0F / static_cast<float>(config_.regions.size());
    for (const RegionConfig& region : config_.regions) {
      record.participants.push_back({.region = region.name,
                                     .round = state.version,
                                     .weight = share,
                                     .payload = made.identified().payload});
      payloads.push_back(made.payload.bytes());
    }
    out.apply_s = std::min(
        out.apply_s, intra::seconds_of([&] { round.apply(*group_, record, payloads, state); }));
  }

  const Config& config_;
  intra::WorkerOptions options_;
  diloco::Layout layout_;
  intra::TrainingState state_;
  std::unique_ptr<intra::Collective> group_;
};

}  // namespace

Probe probe(const Config& config, const ProbeOptions& options) {
  Bench bench(config);
  Probe out;
  out.parameters = bench.parameters();
  out.timed_steps = config.train.timed_step_ms > 0;
  bench.steps(options, out);
  out.save_s = Bench::durable_write_s(options.directory, std::vector<std::byte>(kSmallBytes));
  for (const std::string& spec : options.codecs)
    out.codecs.push_back(bench.codec(spec, options.directory));
  return out;
}

}  // namespace causeway::run
