// causeway generate: text from a checkpoint.
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "intra/checkpoint.h"
#include "intra/generation.h"

namespace causeway::apps {
namespace {

struct GenerateFlags {
  std::filesystem::path checkpoint;
  std::string prompt = "\n";
  intra::GenerationOptions generation;
};

// Byte-level tokens: a token is a byte.
std::vector<std::int32_t> to_tokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

int generate(const GenerateFlags& flags) {
  const intra::LoadedModel loaded = intra::load_model(flags.checkpoint);
  const auto model = intra::make_model(loaded.options);
  const std::vector<std::int32_t> prompt = to_tokens(flags.prompt);
  const std::vector<std::int32_t> continuation =
      intra::generate(*model, loaded.params, prompt, flags.generation);
  if (loaded.options.vocabulary == 256) {
    if (flags.prompt != "\n") std::cout << flags.prompt;
    for (const std::int32_t token : continuation) std::cout << static_cast<char>(token);
  } else {
    for (const std::int32_t token : continuation) std::cout << token << ' ';
  }
  std::cout << "\n";
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Print text that a trained model writes");
  command->add_option("CHECKPOINT", flags->checkpoint, "A model written by a run, .safetensors")
      ->required();
  command->add_option("--prompt", flags->prompt, "Text to continue (default: a new line)")
      ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
  command->add_option("--tokens", flags->generation.tokens, "Tokens to write")
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->generation.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0F, 10.0F))
      ->capture_default_str();
  command
      ->add_option("--top-k", flags->generation.top_k, "Choose among the likeliest; 0: among all")
      ->capture_default_str();
  command->add_option("--seed", flags->generation.seed, "The same seed writes the same text")
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = generate(*flags); });
}

}  // namespace causeway::apps
