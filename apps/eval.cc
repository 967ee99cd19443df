// causeway eval: the validation loss of a checkpoint.
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "intra/collective/collective.h"
#include "intra/published/checkpoint.h"
#include "intra/step/evaluation.h"

namespace causeway::apps {
namespace {

struct EvalFlags {
  std::filesystem::path checkpoint;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  bool json = false;
};

int evaluate(const EvalFlags& flags) {
  const run::Config config =
      run::load_config(flags.config, flags.overrides, run::Trainer::built_in);
  const intra::LoadedModel loaded = intra::load_model(flags.checkpoint);
  if (loaded.options.vocabulary != config.data.vocabulary) {
    throw run::ConfigError(
        fmt::format("{} has a vocabulary of {}, but {} says {}; give the configuration that the "
                    "model was trained with",
                    flags.checkpoint.string(), loaded.options.vocabulary, flags.config.string(),
                    config.data.vocabulary));
  }
  const auto model = intra::make_model(loaded.options);
  const intra::Dataset dataset(config.data);
  const auto alone = intra::make_collective({});
  const double loss = intra::validation_loss(*model, loaded.params, dataset,
                                             config.train.validation_sequences, *alone);
  if (flags.json) {
    std::cout << nlohmann::json{{"val_loss", loss},
                                {"perplexity", std::exp(loss)},
                                {"parameters", model->layout().parameter_count()}}
              << "\n";
  } else {
    std::cout << "validation loss " << loss << " nats per token (perplexity " << std::exp(loss)
              << ")\n";
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app.add_subcommand("eval", "Measure a trained model's validation loss");
  command
      ->add_option("CHECKPOINT", flags->checkpoint,
                   "A model's directory: a run's checkpoints/final, or a published one")
      ->required();
  command
      ->add_option("--config", flags->config, "The run's configuration; its data section is used")
      ->required();
  add_set_option(*command, flags->overrides);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &exit_code] { exit_code = evaluate(*flags); });
}

}  // namespace causeway::apps
