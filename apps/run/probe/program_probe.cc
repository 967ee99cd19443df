#include "apps/run/probe/program_probe.h"

#include <cmath>
#include <span>
#include <vector>

#include "apps/run/probe/runs.h"
#include "apps/run/region/region_files.h"
#include "diloco/files/archive.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kStepsOfRound = 2, kRounds = 12;
constexpr std::size_t kRoundsOfWarmUp = 2;  // a program warms up
// As much as a configuration may say: the model may be of any size, and the run is short.
constexpr std::uint64_t kSpoolBytesMax = 1ULL << 50;

// One region of the configuration, which sends its parameters as they are to nobody.
Config short_run(Config config) {
  config.regions.resize(1);
  config.sync = {.founder = config.regions.front().name, .spool_bytes_max = kSpoolBytesMax};
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
