// causeway generate: text from a checkpoint.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "diloco/files/file_io.h"
#include "intra/published/checkpoint.h"
#include "intra/published/generation.h"
#include "intra/published/tokenizer.h"

namespace causeway::apps {
namespace {

struct GenerateFlags {
  std::filesystem::path checkpoint;
  std::string prompt = "\n";
  intra::GenerationOptions generation;
};

// What the model's tokens mean: its tokenizer says, or they are bytes.
class Language {
 public:
  Language(const std::filesystem::path& checkpoint, std::int64_t vocabulary) {
    const auto directory = is_directory(checkpoint) ? checkpoint : checkpoint.parent_path();
    if (exists(directory / "tokenizer.json")) {
      tokenizer_.emplace(directory);
    } else if (vocabulary != 256) {
      throw run::ConfigError(
          fmt::format("{} has no tokenizer.json, and the model's {} tokens are not bytes; copy the "
                      "tokenizer.json there that its data was made with",
                      directory.string(), vocabulary));
    }
    if (tokenizer_ && tokenizer_->vocabulary() > vocabulary) {
      throw run::ConfigError(
          fmt::format("{} has a tokenizer of {} tokens, but the model has only {}; copy the "
                      "tokenizer.json there that its data was made with",
                      directory.string(), tokenizer_->vocabulary(), vocabulary));
    }
  }

  std::vector<std::int32_t> to_tokens(const std::string& text) const {
    std::vector<std::int32_t> tokens;
    if (!tokenizer_) {
      for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
      return tokens;
    }
    tokens = tokenizer_->before();
    tokenizer_->encode(text, [&](std::span<const std::int32_t> more) {
      tokens.insert(tokens.end(), more.begin(), more.end());
    });
    return tokens;
  }
  std::string to_text(std::span<const std::int32_t> tokens) const {
    return tokenizer_ ? tokenizer_->decode(tokens) : std::string(tokens.begin(), tokens.end());
  }

 private:
  std::optional<intra::Tokenizer> tokenizer_;
};

// A model may write anything: to a file as it is, but not to a terminal.
void print(const std::string& text) {
  if (::isatty(STDOUT_FILENO) == 1) {
    std::cout << text;
  } else {
    diloco::write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "standard output");
  }
}

int generate(const GenerateFlags& flags) {
  const intra::LoadedModel loaded = intra::load_model(flags.checkpoint);
  const Language language(flags.checkpoint, loaded.options.vocabulary);
  const auto model = intra::make_model(loaded.options);
  const std::vector<std::int32_t> continuation =
      intra::generate(*model, loaded.params, language.to_tokens(flags.prompt), flags.generation);
  print((flags.prompt == "\n" ? "" : flags.prompt) + language.to_text(continuation) + "\n");
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Print text that a trained model writes");
  command
      ->add_option("CHECKPOINT", flags->checkpoint,
                   "A model's directory: a run's checkpoints/final, or a published one")
      ->required();
  command->add_option("--prompt", flags->prompt, "Text to continue (default: a new line)")
      ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
  command->add_option("--tokens", flags->generation.tokens, "Tokens to write")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->generation.temperature, "0: always the likeliest token")
      ->check(number_from(0, 10))
      ->capture_default_str();
  command
      ->add_option("--top-k", flags->generation.top_k, "Choose among the likeliest; 0: among all")
      ->check(number_from(0, 1e6))
      ->capture_default_str();
  command->add_option("--seed", flags->generation.seed, "The same seed writes the same text")
      ->check(number_from(0, 1.8e19))
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = generate(*flags); });
}

}  // namespace causeway::apps
