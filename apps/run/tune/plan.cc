#include "apps/run/tune/plan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/learning/recipe.h"
#include "apps/run/page/format.h"
#include "apps/run/probe/probe.h"
#include "apps/run/probe/program_probe.h"
#include "apps/run/probe/runs.h"
#include "apps/run/region/output_file.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/links.h"
#include "diloco/pacing/time_model.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

constexpr std::size_t kRoundsMin = 3;
constexpr int kFittingRehearsals = 6;
constexpr double kFitted = 0.005, kWorthAWarning = 0.02;  // of the recorded round's time

struct Stretch {
  double steps = 0, compute_s = 0;
};

// What the region did from round to round. Steps are counted in tokens: those of an overlapped
// round are not all its own.
std::vector<Stretch> stretches(const std::filesystem::path& region, double tokens_per_step) {
  std::vector<Stretch> out;
  std::optional<RoundEvent> before;
  for (const RoundEvent& round : read_rounds(region)) {
    if (before && round.tokens > before->tokens && round.compute_s > before->compute_s) {
      out.push_back({static_cast<double>(round.tokens - before->tokens) / tokens_per_step,
                     round.compute_s - before->compute_s});
    }
    before = round;
  }
  return out;
}

tuner::Overlap recorded_overlap(const Config& config) {
  tuner::Overlap overlap{config.overlap.variant, config.overlap.fragments, 0};
  if (overlap.variant == tuner::Variant::streaming)
    overlap.overlap_steps = config.sync.overlap_steps;
  return overlap;
}

bool ran_without_wan(const std::filesystem::path& run) {
  const auto json = nlohmann::json::parse(read_text_file(run / "summary.json"), nullptr, false);
  return json.is_object() && json.value("wan", "") == "none";
}

bool links_are_measured(const std::filesystem::path& run, const Config& config) {
  return config.wan.empty() || ran_without_wan(run);
}

wan_sim::Scenario recorded_links(const std::filesystem::path& run, const Config& config) {
  const auto regions = names_of(config);
  return links_are_measured(run, config) ? links_of_run(run, regions)
                                         : links_of_profile(config.wan, regions);
}

std::vector<std::string> regions_of_either(const wan_sim::Scenario& one,
                                           const wan_sim::Scenario& other) {
  std::vector<std::string> regions = one.regions;
  regions.insert(regions.end(), other.regions.begin(), other.regions.end());
  return regions;
}

// What the machines of the run took beyond this one, or less: nothing costs less than nothing.
void shift(CodecProbe& codec, double more_s) {
  codec.encode_s += std::max(0.0, more_s);
  double less_s = std::max(0.0, -more_s);
  for (double* cost_s : {&codec.encode_s, &codec.apply_s, &codec.store_s}) {
    const double taken_s = std::min(*cost_s, less_s);
    *cost_s -= taken_s;
    less_s -= taken_s;
  }
}

template <typename T>
void put_first(std::vector<T>& list, const T& value) {
  std::erase(list, value);
  list.insert(list.begin(), value);
}

class Planner {
 public:
  Planner(const TuneOptions& options, std::filesystem::path run,
          const std::function<void(const std::string&)>& note)
      : options_(options),
        run_(std::move(run)),
        note_(note),
        config_(load_config(run_ / "config.toml", options.overrides)),
        recording_(read_recording(run_, config_)),
        overlap_(recorded_overlap(config_)) {}

  Tuning run() {
    out_.name = config_.name;
    out_.by_program = !config_.built_in_trainer();
    out_.recorded = true;
    out_.regions = names_of(config_);
    out_.steps = config_.train.steps;
    out_.configured = recipe_of(config_);
    out_.configured_variant = overlap_.variant;
    out_.exchange = config_.sync.rules.exchange;
    out_.warnings = not_rehearsed(config_);
    make_output_directory("--cache", options_.cache);
    out_.links = options_.links.empty() ? "of the recorded run" : options_.links.string();
    const auto recorded = links_of_recording();
    const wan_sim::Scenario links =
        options_.links.empty() ? *recorded : links_of_profile(options_.links, out_.regions);
    out_.prices =
        prices_to_predict_with(options_.prices, config_,
                               regions_of_either(recorded.value_or(links), links), out_.warnings);
    probe_codecs();
    probe_links_of(links);
    if (recorded) explain_recorded(*recorded);
    out_.forecast = predict(input(links), choices(links));
    if (options_.links.empty()) note_recorded();
    tuner::price_rows(out_.forecast.rows, out_.price, double(out_.steps));
    out_.recommendation = tuner::recommend(out_.forecast.rows, out_.price, double(out_.steps));
    if (out_.recommendation)
      out_.settings = settings_between(config_, with_choice(config_, out_.recommended()));
    judge(out_);
    if (!explanation_.empty()) out_.reasons.insert(out_.reasons.begin(), explanation_);
    return std::move(out_);
  }

 private:
  void probe_codecs() {
    note_("measuring codecs");
    std::vector<std::string> codecs = without_repeats(options_.codecs);
    put_first(codecs, config_.codec.matrix);
    double slowest_s = 0;
    for (const auto& [region, step_s] : recording_.step_s) slowest_s = std::max(slowest_s, step_s);
    Config untimed = config_;
    untimed.train.timed_step_ms = 1;  // their times are recorded; any delta will do for codecs
    const ProbeOptions how{.seconds = 0,
                           .step_s = slowest_s,
                           .codecs = std::move(codecs),
                           .directory = options_.cache};
    out_.probe =
        config_.built_in_trainer() ? probe(untimed, how) : probe_recorded(config_, run_, how);
    out_.probe.timed_steps = config_.train.timed_step_ms > 0;
    out_.probe.step_deviation_s = recording_.step_deviation_s;
  }

  void probe_links_of(const wan_sim::Scenario& links) {
    const std::uint64_t payload_bytes = out_.probe.codecs.front().payload_bytes;
    note_("probing: links");
    out_.link_probes = options_.links.empty() && links_are_measured(run_, config_)
                           ? probed_links_of_run(run_, out_.regions, payload_bytes)
                           : probe_links(links, out_.regions, payload_bytes);
  }

  // Nothing, with a warning, if they are not known but others are given.
  std::optional<wan_sim::Scenario> links_of_recording() {
    try {
      return recorded_links(run_, config_);
    } catch (const ConfigError& error) {
      if (options_.links.empty()) throw;
      out_.warnings.push_back(
          std::string(
              "the plan leaves out the time that the run's machines took beyond the rehearsal: ") +
          error.what());
      return std::nullopt;
    }
  }

  tuner::Row recorded_choice() const {
    return {.k = recording_.k,
            .codec = config_.codec.matrix,
            .bits_per_parameter = out_.probe.codecs.front().bits_per_parameter,
            .inner = out_.configured.inner,
            .overlap = overlap_,
            .topology = config_.links.topology,
            .exchange = exchange_with(config_.sync.rules.exchange, overlap_.variant,
                                      has_sparse_codec(config_))};
  }

  bool is_recorded(const tuner::Row& row) const {
    const tuner::Row recorded = recorded_choice();
    return row.k == recorded.k && row.codec == recorded.codec && row.overlap == recorded.overlap &&
           row.topology == recorded.topology && row.exchange == recorded.exchange;
  }

  PredictInput input(const wan_sim::Scenario& links) const {
    return {.config = config_,
            .probe = out_.probe,
            .links = links,
            .prices = out_.prices,
            .step_s = recording_.step_s,
            .measured_s_min = options_.rehearse_s,
            .rounds = options_.rounds};
  }

  // What was asked for, after the recorded choice.
  std::vector<tuner::Row> choices(const wan_sim::Scenario& links) {
    Grid grid = options_.grid;
    put_first(grid.ks, recording_.k);
    std::ranges::sort(grid.ks);
    put_first(grid.variants, tuner::Variant::synchronous);
    put_first(grid.variants, overlap_.variant);
    put_first(grid.topologies, config_.links.topology);
    put_first(grid.exchanges, config_.sync.rules.exchange);
    if (overlap_.variant == tuner::Variant::streaming) {
      if (grid.fragments == 0) grid.fragments = overlap_.fragments;
      if (grid.overlap_steps == 0) grid.overlap_steps = overlap_.overlap_steps;
    }
    Choices choices = choices_of(grid, input(links));
    out_.warnings.insert(out_.warnings.end(), choices.warnings.begin(), choices.warnings.end());
    for (tuner::Row& row : choices.rows) row.inner = out_.configured.inner;
    const bool there = std::ranges::any_of(
        choices.rows, [this](const tuner::Row& row) { return is_recorded(row); });
    if (!there) choices.rows.insert(choices.rows.begin(), recorded_choice());
    return std::move(choices.rows);
  }

  // What the rehearsal of the recorded choice does not explain belongs to the machines. A part of
  // what is added may be hidden, so this takes a few rehearsals.
  void explain_recorded(const wan_sim::Scenario& links) {
    explanation_ =
        fmt::format("recorded: {} rounds of K = {}, {}, {} s each; ", recording_.rounds,
                    recording_.k, describe(overlap_), format_fixed(recording_.round_s, 3));
    double first_s = 0, left_s = 0;
    for (int i = 0; i < kFittingRehearsals; ++i) {
      const tuner::Row row = predict(input(links), {recorded_choice()}).rows.front();
      if (!row.complete) {
        explanation_ +=
            "the rehearsal of these rounds did not complete, so the plan learns nothing from them";
        return;
      }
      left_s = recording_.round_s - row.round_s;
      if (i == 0) first_s = row.round_s;
      if (std::abs(left_s) < kFitted * recording_.round_s) break;
      for (CodecProbe& codec : out_.probe.codecs) shift(codec, left_s);
    }
    out_.fitted_to_recording = true;
    const double shifted_s = recording_.round_s - left_s - first_s;
    explanation_ += "their rehearsal takes " + format_fixed(first_s, 3) + " s, so " +
                    format_fixed(std::abs(shifted_s), 3) + " s are " +
                    (shifted_s < 0 ? "taken from" : "added to") + " every choice";
    if (std::abs(left_s) < kWorthAWarning * recording_.round_s) return;
    out_.warnings.push_back("the recorded rounds were " + format_fixed(std::abs(left_s), 3) +
                            " s " + (left_s < 0 ? "quicker" : "slower") +
                            " than any rehearsal of them, and other choices may be as well");
  }

  void note_recorded() {
    for (tuner::Row& row : out_.forecast.rows) {
      if (is_recorded(row)) row.measured_round_s = recording_.round_s;
    }
  }

  const TuneOptions& options_;
  std::filesystem::path run_;
  const std::function<void(const std::string&)>& note_;
  Config config_;
  Recording recording_;
  tuner::Overlap overlap_;
  std::string explanation_;
  Tuning out_;
};

// A program's is what it reported.
double tokens_per_step(const Config& config, const std::filesystem::path& region) {
  if (config.built_in_trainer()) return double(config.train.batch) * double(config.model.context);
  const std::vector<RoundEvent> rounds = read_rounds(region);
  const bool known = !rounds.empty() && rounds.back().step > 0;
  return known ? double(rounds.back().tokens) / double(rounds.back().step) : 1;
}

// An archive of a run has none, nor the other regions.
void require_events(const std::filesystem::path& region) {
  const std::filesystem::path events = region / "events.jsonl";
  if (std::filesystem::exists(events)) return;
  throw ConfigError(events.string() +
                    ": is not there. A plan needs it of every region, as it says how long each "
                    "round took: name the directory in which the run went on. What `causeway "
                    "import` makes has no such files");
}

}  // namespace

Recording read_recording(const std::filesystem::path& run, const Config& config) {
  Recording out;
  std::vector<double> deviations;
  for (const std::string& region : names_of(config)) {
    const std::filesystem::path directory = run / "regions" / region;
    require_events(directory);
    const auto taken = stretches(directory, tokens_per_step(config, directory));
    if (taken.size() < kRoundsMin) {
      throw ConfigError(fmt::format(
          "{}: has too few rounds to learn from; a plan needs a run of {} rounds or more",
          (run / "regions" / region / "events.jsonl").string(), kRoundsMin + 2));
    }
    std::vector<double> steps_s;
    for (const Stretch& stretch : taken) steps_s.push_back(stretch.compute_s / stretch.steps);
    const double step_s = tuner::quantile(steps_s, 0.5);
    for (const Stretch& stretch : taken) {
      deviations.push_back(std::abs(stretch.compute_s - step_s * stretch.steps) /
                           std::sqrt(stretch.steps));
    }
    out.rounds = std::max(out.rounds, (taken.size() + 1) / config.overlap.fragments);
    out.step_s[region] = step_s;
  }
  out.step_deviation_s = 1.4826 * tuner::quantile(deviations, 0.5);
  const std::uint32_t fragments = config.overlap.fragments;
  out.k = static_cast<std::uint32_t>(usual_steps(run, names_of(config))) * fragments;
  const auto round_s = measured_round_s(run, names_of(config));
  if (!round_s || out.k == 0)
    throw ConfigError(run.string() + ": has too few rounds to learn from");
  out.round_s = *round_s * fragments;  // the log's rounds are of one fragment
  return out;
}

Tuning plan(const TuneOptions& options, const std::filesystem::path& run,
            const std::function<void(const std::string&)>& note) {
  if (!std::filesystem::exists(run / "config.toml")) {
    throw ConfigError(
        run.string() +
        ": has no config.toml. Only the directory of a run of `causeway simulate` can be planned "
        "from: its configuration and all its regions are in it. Of a run that was started by "
        "hand use the links that it measured: causeway tune CONFIG --links-run " +
        run.string());
  }
  return Planner(options, run, note).run();
}

}  // namespace causeway::run
