// causeway tune: which K, and why. causeway plan: a recorded run under other choices.
#include "apps/run/tune/tune.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/region/output_file.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/plan.h"
#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "inter/base/text.h"

namespace causeway::apps {
namespace {

struct TuneFlags {
  run::TuneOptions options;
  std::vector<std::string> variants;
  std::vector<std::string> topologies;
  std::vector<std::string> exchanges;
  double step_ms = 0;
  double region_mbit_s = 0, codec_gb_s = 0, disk_gb_s = 0;
  std::filesystem::path out;
  bool json = false;
};

void say(const std::string& text) {
  std::fprintf(stderr, "%s\n", inter::printable(text).c_str());
}

void resolve(TuneFlags& flags) {
  spdlog::set_level(spdlog::level::warn);  // rehearsed coordinators say what real ones would
  // Now, not after half an hour of measuring.
  if (!flags.out.empty()) run::make_output_directory("--out", flags.out);
  flags.options.step_s = flags.step_ms / 1e3;
  flags.options.phantom.region_bytes_per_s = flags.region_mbit_s * 125'000;
  flags.options.phantom.codec_bytes_per_s = flags.codec_gb_s * 1e9;
  flags.options.phantom.disk_bytes_per_s = flags.disk_gb_s * 1e9;
  for (const std::string& name : flags.variants) {
    flags.options.grid.variants.push_back(*diloco::tuner::parse_variant(name));
  }
  for (const std::string& name : flags.topologies) {
    flags.options.grid.topologies.push_back(
        name == "auto" ? std::nullopt : std::optional(inter::parse_shape(name)));
  }
  for (const std::string& name : flags.exchanges) {
    using diloco::ExchangeKind;
    for (const auto kind : {ExchangeKind::full, ExchangeKind::sharded, ExchangeKind::automatic})
      if (run::exchange_name(kind) == name) flags.options.grid.exchanges.push_back(kind);
  }
}

std::string codec_objection(const std::string& spec) {
  try {
    compression::make_codec(spec);
    return "";
  } catch (const std::system_error& error) {
    return error.what();
  }
}

int show(const TuneFlags& flags, const run::Tuning& tuning) {
  // First, for the disk may be full: what took hours is not lost then.
  const std::string text = flags.json ? run::tuning_json(tuning) : run::tuning_text(tuning);
  std::fputs(text.c_str(), stdout);
  if (!flags.out.empty()) {
    run::write_text_file(flags.out / "tune.json", run::tuning_json(tuning));
    run::write_text_file(flags.out / "report.html", run::tuning_html(tuning));
  }
  if (!flags.out.empty() && !flags.json)
    std::printf("Report: %s\n", (flags.out / "report.html").c_str());
  return tuning.recommendation ? 0 : 3;
}

void add_grid_flags(CLI::App& command, TuneFlags& flags) {
  run::TuneOptions& options = flags.options;
  command.add_option("--k", options.grid.ks, "K to try, repeated or with commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--codec", options.codecs, "Codec of matrices to try, repeated")
      ->check(codec_objection)
      ->allow_extra_args(false);
  command
      .add_option("--variant", flags.variants,
                  "Overlap to try, repeated (default: synchronous, streaming, eager)")
      ->check(CLI::IsMember({"synchronous", "streaming", "eager", "delayed"}))
      ->allow_extra_args(false);
  command
      .add_option("--topology", flags.topologies,
                  "Topology of payload transfers to try, repeated (default: links.topology)")
      ->check(CLI::IsMember({"auto", "direct", "ring", "relay"}))
      ->allow_extra_args(false);
  command
      .add_option("--exchange", flags.exchanges,
                  "Value of sync.exchange to try, repeated (default: that of the configuration)")
      ->check(CLI::IsMember({"full", "sharded", "auto"}))
      ->allow_extra_args(false);
  command
      .add_option("--fragments", options.grid.fragments,
                  "Fragments of streaming (default: one "
                  "for three layers)")
      ->check(CLI::Range(1, 1024));
  command
      .add_option(
          "--overlap-steps", options.grid.overlap_steps,
          "Inner steps that overlap a fragment's exchange (default: as many as hide it, 5 at most)")
      ->check(CLI::Range(1, 1'000'000));
}

void add_measuring_flags(CLI::App& command, TuneFlags& flags) {
  run::TuneOptions& options = flags.options;
  command.add_option("--probe", options.probe_s, "Seconds of inner steps to measure")
      ->check(number_from(0.1, 3600))
      ->capture_default_str();
  command
      .add_option("--step-ms", flags.step_ms,
                  "Milliseconds of an inner step, if the regions' machines differ from this one")
      ->check(number_from(0.001, 3.6e6));
  command
      .add_option("--region-step-ms", options.region_step_s,
                  "REGION=MILLISECONDS, repeated: a region that differs from the others")
      ->allow_extra_args(false);
  command
      .add_option(
          "--calibrate", options.calibrate_s,
          "Measure what K, inner optimizer and codec cost in steps by short runs on this host, for "
          "this many seconds")
      ->check(number_from(0, 1e6));
  command
      .add_option("--measure", options.measure_s,
                  "Measure real rounds with timed steps on this host for this many seconds, to "
                  "compare them with the predicted ones")
      ->check(number_from(0, 1e6));
  command.add_flag("--measure-all", options.measure_all,
                   "Measure every choice, however long it takes");
  command.add_option("--cache", options.cache, "Where calibrations are kept")
      ->capture_default_str();
}

// A run that is only asked about.
void add_phantom_flags(CLI::App& command, TuneFlags& flags) {
  run::Phantom& phantom = flags.options.phantom;
  auto* const asked = command
                          .add_option("--parameters", phantom.parameters,
                                      "Parameters of a model that you only plan, such as 10e9: "
                                      "nothing is trained. Needs --step-ms; CONFIG may be left out")
                          ->check(number_from(1e6, 1e13));
  command
      .add_option("--regions", phantom.regions,
                  "With --parameters: number of regions, at the places of --links, instead of "
                  "those of CONFIG")
      ->check(CLI::Range(2, 64))
      ->needs(asked);
  command
      .add_option("--region-mbit-s", flags.region_mbit_s,
                  "With --parameters: Mbit/s that a region sends, and receives, over all its links "
                  "together (default: each link has its own rate)")
      ->check(number_from(0.01, 1e8))
      ->needs(asked);
  command
      .add_option("--codec-gb-s", flags.codec_gb_s,
                  "With --parameters: GB (10^9 bytes) of fp32 parameters that a region encodes, or "
                  "decodes and adds, per second (default: as this machine)")
      ->check(number_from(0.001, 1e6))
      ->needs(asked);
  command
      .add_option("--disk-gb-s", flags.disk_gb_s,
                  "With --parameters: GB (10^9 bytes) that a region hashes and writes durably per "
                  "second (default: as this machine)")
      ->check(number_from(0.001, 1e6))
      ->needs(asked);
}

void add_output_flags(CLI::App& command, TuneFlags& flags) {
  command.add_option("--prices", flags.options.prices,
                     "TOML file with the price of traffic: default_per_gb, [[price]] from, to, "
                     "per_gb (default: links.prices)");
  command
      .add_option("--rehearse", flags.options.rehearse_s,
                  "Seconds of virtual time to rehearse for each choice, at least")
      ->check(number_from(0, 1e6));
  command
      .add_option("--rounds", flags.options.rounds,
                  "Rounds to rehearse for each choice, at least; two more come before them")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--out", flags.out, "Directory for report.html and tune.json");
  command.add_flag("--json", flags.json, "Print JSON instead of a table");
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TuneFlags>();
  run::TuneOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("tune", "Recommend K, codec and overlap, and say why");
  command->add_option("CONFIG", options.config, "The run's configuration file");
  add_set_option(*command, options.overrides);
  command
      ->add_option("--worker", options.worker,
                   "Command line of your own training program, which is run for a few steps to "
                   "measure them, as `causeway simulate --worker` would")
      ->type_name("COMMAND");
  auto* links = command->add_option("--links", options.links,
                                    "Scenario file of the WAN (default: wan.profile)");
  command
      ->add_option("--links-run", options.links_run,
                   "Instead of --links: directory of a run; take the links as its coordinators "
                   "measured them")
      ->excludes(links);
  add_grid_flags(*command, *flags);
  add_measuring_flags(*command, *flags);
  add_phantom_flags(*command, *flags);
  add_output_flags(*command, *flags);
  command->callback([flags, &exit_code] {
    if (flags->options.config.empty() && !flags->options.phantom.asked())
      throw CLI::RequiredError("CONFIG");
    resolve(*flags);
    exit_code = show(*flags, run::tune(flags->options, say));
  });
}

void add_plan(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TuneFlags>();
  auto recorded = std::make_shared<std::filesystem::path>();
  CLI::App* command =
      app.add_subcommand("plan", "Predict a recorded run under other links, K, codec or overlap");
  command
      ->add_option("--what-if", *recorded, "The directory of a recorded run of `causeway simulate`")
      ->required();
  command->add_option("--links", flags->options.links,
                      "Scenario file of other links (default: those of the run)");
  add_grid_flags(*command, *flags);
  command
      ->add_option("--cache", flags->options.cache,
                   "Directory for temporary files of the measurements")
      ->capture_default_str();
  add_output_flags(*command, *flags);
  command->callback([flags, recorded, &exit_code] {
    resolve(*flags);
    exit_code = show(*flags, run::plan(flags->options, *recorded, say));
  });
}

}  // namespace causeway::apps
