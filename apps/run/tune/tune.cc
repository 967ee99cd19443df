#include "apps/run/tune/tune.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "apps/run/config/suitable_outer.h"
#include "apps/run/probe/probe.h"
#include "apps/run/probe/program_probe.h"
#include "apps/run/probe/runs.h"
#include "apps/run/region/output_file.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/grid.h"
#include "apps/run/tune/links.h"
#include "apps/run/tune/side_by_side.h"
#include "apps/run/tune/timed_rounds.h"
#include "inter/base/file.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

constexpr const char* kMeasured = "measured";  // where real runs are
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> default_codecs(const Config& config) {
  std::vector<std::string> codecs = {config.codec.matrix};
  for (const char* other : {"dense:int8,block=128", "dense:2bit", "topk:k=64,value=2bit"}) {
    if (codecs.front() != other) codecs.emplace_back(other);
  }
  return codecs;
}

// Of a phantom; empty: those of the configuration.
std::vector<std::string> phantom_regions(const TuneOptions& options) {
  if (!options.config.empty() && options.phantom.regions == 0) return {};
  if (options.links.empty())
    throw ConfigError(
        "--links: is missing; --regions, or a tuning without CONFIG, takes its regions");
  return with_regions(wan_sim::load_scenario(options.links), options.phantom.regions).regions;
}

void refuse_what_phantoms_cannot(const TuneOptions& options) {
  const bool runs = options.calibrate_s > 0 || options.measure_s > 0 || options.measure_all;
  if (runs || !options.worker.empty()) {
    throw ConfigError(
        "--parameters: stands for a model that is not here, so nothing can be run; leave out "
        "--calibrate, --measure and --worker");
  }
  if (options.step_s <= 0) {
    throw ConfigError(
        "--parameters: needs --step-ms, the time of an inner step on the machines that train the "
        "model");
  }
}

std::map<std::string, double> parse_step_s(const std::vector<std::string>& texts,
                                           const std::vector<std::string>& regions) {
  std::map<std::string, double> out;
  for (const std::string& text : texts) {
    const auto refuse = [&text](const std::string& why) {
      throw ConfigError("--region-step-ms " + text + ": " + why);
    };
    const std::size_t equals = text.find('=');
    double ms = 0;
    const char* const end = text.data() + text.size();
    if (equals == std::string::npos ||
        std::from_chars(text.data() + equals + 1, end, ms).ptr != end || !(ms > 0)) {
      refuse("must be REGION=MILLISECONDS");
    }
    const std::string region = text.substr(0, equals);
    std::string known;
    for (const std::string& one : regions) inter::append_item(known, one);
    if (std::ranges::find(regions, region) == regions.end())
      refuse("the run has no such region; it has " + known);
    if (!out.emplace(region, ms / 1e3).second) refuse("this region was given before; name it once");
  }
  return out;
}

class Tuner {
 public:
  Tuner(const TuneOptions& options, const std::function<void(const std::string&)>& note)
      : options_(options),
        note_(note),
        config_(options.phantom.asked()
                    ? config_of_phantom(options.config, options.overrides, phantom_regions(options))
                    : load_config(options.config, options.overrides,
                                  options.worker.empty() ? Trainer::built_in : Trainer::program)) {}

  Tuning run() {
    out_.name = config_.name;
    out_.by_program = !config_.built_in_trainer();
    out_.regions = names_of(config_);
    out_.steps = config_.train.steps;
    out_.configured = recipe_of(config_);
    out_.configured_variant = config_.overlap.variant;
    out_.exchange = config_.sync.rules.exchange;
    if (out_.regions.size() < 2)
      throw ConfigError(
          "regions: tune needs two regions or more; one region exchanges nothing, so any K will "
          "do");
    out_.warnings = not_rehearsed(config_);
    make_output_directory("--cache", options_.cache);
    if (writes_work()) claim_work();
    const wan_sim::Scenario links = read_links();
    out_.prices = prices_to_predict_with(options_.prices, config_, links.regions, out_.warnings);
    if (const std::string concern = outer_concern(config_); !concern.empty())
      out_.warnings.push_back(concern);
    step_s_ = parse_step_s(options_.region_step_s, out_.regions);
    refuse_what_programs_cannot();
    probe_machine();
    probe_links_of(links);
    calibrate_recipes();
    rehearse(links);
    tuner::price_rows(out_.forecast.rows, out_.price, double(out_.steps));
    out_.recommendation = tuner::recommend(out_.forecast.rows, out_.price, double(out_.steps));
    if (out_.recommendation)
      out_.settings = settings_between(config_, with_choice(config_, out_.recommended()));
    if (measures()) measure(links);
    judge(out_);
    return std::move(out_);
  }

 private:
  bool measures() const { return options_.measure_s > 0 || options_.measure_all; }
  bool writes_work() const {
    return measures() || !options_.worker.empty() || !options_.links_run.empty();
  }

  // Two at a time would remove each other's runs, or change the links under them.
  void claim_work() {
    std::filesystem::create_directories(work());
    work_lock_.emplace(work() / "lock", O_RDWR | O_CREAT | O_CLOEXEC);
    // Not every file system has locks.
    if (!work_lock_->lock() && errno == EWOULDBLOCK) {
      throw ConfigError("--cache " + options_.cache.string() +
                        ": another `causeway tune` works there; wait until it has ended, or name "
                        "another directory");
    }
    if (measures()) std::filesystem::remove_all(work() / kMeasured);  // what an earlier one left
  }

  wan_sim::Scenario read_links() {
    if (!options_.links_run.empty()) {
      out_.links = "as measured by " + options_.links_run.string();
      // A file, as real runs over these links need one.
      links_file_ = work() / "links-of-run.toml";
      std::filesystem::create_directories(work());
      write_text_file(links_file_, links_text_of_run(options_.links_run, out_.regions));
      return links_of_file();
    }
    links_file_ = options_.links.empty() ? config_.wan : options_.links;
    if (links_file_.empty()) {
      throw ConfigError(
          "--links: is missing, and the configuration has no wan.profile; give a scenario, or "
          "--links-run with the directory of a run that measured its links");
    }
    out_.links = links_file_.string();
    return links_of_file();
  }

  wan_sim::Scenario links_of_file() {
    if (!options_.phantom.asked()) return links_of_profile(links_file_, out_.regions);
    return links_of_phantom(links_file_, options_.phantom, out_.regions, out_.warnings);
  }

  void probe_machine() {
    note_("probing: inner steps and codecs");
    const auto codecs =
        options_.codecs.empty() ? default_codecs(config_) : without_repeats(options_.codecs);
    const ProbeOptions how{.seconds = options_.probe_s,
                           .step_s = options_.step_s,
                           .codecs = codecs,
                           .directory = options_.cache};
    const auto measured = [&] {
      if (options_.phantom.asked())
        return probe_phantom(config_, options_.phantom, how, out_.warnings);
      if (config_.built_in_trainer()) return probe(config_, how);
      return probe_program(config_, {options_.worker, work() / "probe", options_.program}, how);
    };
    out_.probe = measured();
  }

  void refuse_what_programs_cannot() const {
    if (options_.phantom.asked()) return refuse_what_phantoms_cannot(options_);
    if (config_.built_in_trainer()) return;
    if (options_.calibrate_s > 0) {
      throw ConfigError(
          "--calibrate: needs validation losses, which nobody but the program itself can measure; "
          "leave it out");
    }
    if (measures()) {
      throw ConfigError(
          "--measure: needs timed steps, which only the built-in trainer has; leave it out, and "
          "measure with `causeway simulate --worker`");
    }
  }

  void probe_links_of(const wan_sim::Scenario& links) {
    note_("probing: links");
    const std::uint64_t payload_bytes = out_.probe.codecs.front().payload_bytes;
    out_.link_probes = options_.links_run.empty()
                           ? probe_links(links, out_.regions, payload_bytes)
                           : probed_links_of_run(options_.links_run, out_.regions, payload_bytes);
  }

  PredictInput predict_input(const wan_sim::Scenario& links) const {
    return {.config = config_,
            .probe = out_.probe,
            .links = links,
            .prices = out_.prices,
            .step_s = step_s_,
            .measured_s_min = options_.rehearse_s,
            .rounds = options_.rounds};
  }

  void rehearse(const wan_sim::Scenario& links) {
    const PredictInput input = predict_input(links);
    Choices choices = choices_of(options_.grid, input);
    price_choices(choices.rows);
    out_.warnings.insert(out_.warnings.end(), choices.warnings.begin(), choices.warnings.end());
    note_(fmt::format("predicting: {} choices over {}", choices.rows.size(), out_.links));
    out_.forecast = predict(input, std::move(choices.rows));
  }

  std::filesystem::path work() const {
    return options_.work.empty() ? options_.cache / "work" : options_.work;
  }

  // Every recipe that was calibrated, where there is more than the configured one.
  void price_choices(std::vector<tuner::Row>& rows) {
    std::vector<tuner::Row> priced;
    for (const tuner::Row& row : rows) {
      for (const std::string& inner : inner_optimizers()) {
        const bool configured = inner == out_.configured.inner;
        priced.push_back(row);
        priced.back().inner = inner;
        priced.back().inner_step_ratio = configured ? 1 : other_inner_step_ratio_;
        price(priced.back());
        if (!configured && !priced.back().price) priced.pop_back();
      }
    }
    rows = std::move(priced);
  }

  void price(tuner::Row& row) const {
    const Recipe recipe{row.inner, row.codec};
    if (const auto* const own = out_.calibration.price_of(recipe)) row.price = *own;
    row.overlap_priced = row.price && row.overlap.variant == out_.configured_variant;
    if (row.overlap_priced) return;
    if (const auto late = out_.calibration.price_of(recipe, row.overlap.variant)) {
      row.price = late;
      row.overlap_priced = true;
    }
  }

  std::vector<std::string> inner_optimizers() const {
    if (out_.by_program) return {""};
    return {out_.configured.inner, out_.configured.inner == "muon" ? "adamw" : "muon"};
  }

  std::vector<Recipe> other_recipes() const {
    std::vector<Recipe> recipes;
    for (const std::string& inner : inner_optimizers()) {
      for (const CodecProbe& codec : out_.probe.codecs) {
        const Recipe recipe{inner, codec.codec};
        if (recipe != out_.configured) recipes.push_back(recipe);
      }
      for (const tuner::Overlap& overlap : other_overlaps()) {
        const bool late =
            overlap.variant == tuner::Variant::eager || overlap.variant == tuner::Variant::delayed;
        for (const CodecProbe& codec : out_.probe.codecs) {
          if (late || codec.codec == out_.configured.codec)
            recipes.push_back({inner, codec.codec, overlap});
        }
      }
    }
    return recipes;
  }

  // Those whose fragments divide the K of trials.
  std::vector<tuner::Overlap> other_overlaps() const {
    std::vector<tuner::Overlap> overlaps;
    for (const tuner::Overlap& overlap : overlaps_of(options_.grid, config_)) {
      if (overlap.variant != out_.configured_variant && config_.train.k % overlap.fragments == 0)
        overlaps.push_back(overlap);
    }
    return overlaps;
  }

  // How much longer a step takes with the other inner optimizer, on this machine. In turns, and of
  // each the quickest: what else runs here now and then says nothing about either.
  void probe_other_inner() {
    const Config other = with(config_, {inner_optimizers().back(), out_.configured.codec});
    constexpr int kTurns = 5;
    const auto step_s = [&](const Config& config) {
      return probe_step_s(config, options_.probe_s / kTurns);
    };
    note_("probing: inner steps with " + inner_optimizers().back());
    double own_s = kInfinity, other_s = kInfinity;
    for (int turn = 0; turn < kTurns; ++turn) {
      own_s = std::min(own_s, step_s(config_));
      other_s = std::min(other_s, step_s(other));
    }
    other_inner_step_ratio_ = other_s / own_s;
  }

  RealRuns real_runs(const std::string& purpose) const {
    return {.config = options_.config,
            .overrides = options_.overrides,
            .program = options_.program,
            .directory = work() / purpose};
  }

  // Of this host, whatever the regions' machines do, and beside the other trials.
  double step_s_of_trials(std::size_t at_once) const {
    if (options_.calibrate_s <= 0) return 0;
    if (at_once == 1 && options_.step_s == 0) return out_.probe.step_s;
    note_("probing: inner steps of " + std::to_string(at_once) + " trials side by side");
    std::vector<double> step_s(at_once);
    std::vector<std::function<void()>> probes;
    for (double& one : step_s)
      probes.emplace_back([&] { one = probe_step_s(config_, options_.probe_s); });
    run_side_by_side(at_once, probes);
    return std::ranges::max(step_s);
  }

  void calibrate_recipes() {
    if (!config_.built_in_trainer()) return;
    if (options_.calibrate_s > 0 && config_.train.timed_step_ms > 0) {
      throw ConfigError(
          "--calibrate: needs losses, but train.timed_step_ms makes steps that compute nothing; "
          "set "
          "it to 0");
    }
    const std::size_t at_once = options_.calibrate_s > 0 ? trials_side_by_side(config_) : 1;
    out_.calibration = calibrate(config_,
                                 {.budget_s = options_.calibrate_s,
                                  .step_s = step_s_of_trials(at_once),
                                  .at_once = at_once,
                                  .cache = options_.cache,
                                  .recipes = other_recipes()},
                                 note_);
    if (!out_.calibration.known()) return;
    out_.price = out_.calibration.prices.front().second;
    const bool other_inner = std::ranges::any_of(out_.calibration.prices, [&](const auto& one) {
      return one.first.inner != out_.configured.inner;
    });
    if (other_inner) probe_other_inner();
  }

  void measure(const wan_sim::Scenario& links) {
    measure_rounds({.options = options_,
                    .input = predict_input(links),
                    .links_file = links_file_,
                    .runs = real_runs(kMeasured),
                    .note = note_},
                   out_);
  }

  const TuneOptions& options_;
  const std::function<void(const std::string&)>& note_;
  Config config_;
  std::filesystem::path links_file_;
  std::map<std::string, double> step_s_;  // of regions that differ
  double other_inner_step_ratio_ = 1;
  std::optional<inter::File> work_lock_;
  Tuning out_;
};

}  // namespace

Tuning tune(const TuneOptions& options, const std::function<void(const std::string&)>& note) {
  return Tuner(options, note).run();
}

}  // namespace causeway::run
