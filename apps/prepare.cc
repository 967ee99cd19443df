// causeway prepare: texts become files of tokens.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/run/config/config.h"
#include "apps/run/config/config_schema.h"
#include "inter/base/atomic_file.h"
#include "inter/base/text.h"
#include "intra/base/mapped_file.h"
#include "intra/published/token_shard.h"
#include "intra/published/tokenizer.h"

namespace causeway::apps {
namespace {

namespace fs = std::filesystem;

struct PrepareFlags {
  fs::path tokenizer;
  std::vector<fs::path> texts;
  fs::path out;
  std::string end;
  std::string field = "text";
};

// Whether any holds more than one document.
bool any_json_lines(const PrepareFlags& flags) {
  bool any = false;
  for (const fs::path& text : flags.texts)  // each is looked at, for what is not read is refused
    any = (intra::document_format(text) == intra::DocumentFormat::json_lines) || any;
  return any;
}

// Tokens that are there twice would be in the training part and in that for validation.
void refuse_twice(const std::vector<fs::path>& texts) {
  std::map<intra::FileIdentity, fs::path> seen;
  for (const fs::path& text : texts) {
    const auto identity = intra::identity_of(text);
    if (!identity) continue;  // refused when it is read
    const auto [known, is_new] = seen.emplace(*identity, text);
    if (!is_new)
      throw run::ConfigError(text.string() + ": is the same file as " + known->second.string() +
                             "; name it once");
  }
}

// Before hours of work: two texts must not become one shard.
std::vector<fs::path> shards_of(const PrepareFlags& flags) {
  std::vector<fs::path> shards;
  std::set<fs::path> seen;
  for (const fs::path& text : flags.texts) {
    shards.push_back(flags.out / text.filename().replace_extension(".bin"));
    if (!seen.insert(shards.back()).second) {
      throw run::ConfigError(text.string() + ": another text would also become " +
                             shards.back().string() + "; rename one of them");
    }
  }
  refuse_twice(flags.texts);
  return shards;
}

std::optional<std::int32_t> end_token(const PrepareFlags& flags,
                                      const intra::Tokenizer& tokenizer) {
  if (flags.end.empty()) return std::nullopt;
  const std::optional<std::int32_t> token = tokenizer.token(flags.end);
  if (!token) {
    throw run::ConfigError("--end " + flags.end + ": " + flags.tokenizer.string() +
                           " has no such added token; its added_tokens list those that it has");
  }
  return token;
}

// As data.files takes it: what the directory's name has of wildcards stands for itself.
std::string pattern_of(const fs::path& out) {
  std::string pattern;
  for (const char c : out.string()) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return run::quote(pattern + "/*.bin");
}

// Tokens of another text, perhaps by another tokenizer, or those that are kept for validation.
void warn_of_others(const fs::path& out, const std::vector<fs::path>& shards) {
  std::set<std::string> others;
  for (const auto& entry : fs::directory_iterator(out)) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".bin" && !name.string().starts_with('.')) others.insert(name.string());
  }
  for (const fs::path& shard : shards) others.erase(shard.filename().string());
  if (others.empty()) return;
  constexpr std::size_t kNamed = 3;
  std::string named;
  std::size_t count = 0;
  for (const std::string& name : others)
    if (count++ < kNamed) inter::append_item(named, name);
  if (others.size() > kNamed) named += fmt::format(" and {} more", others.size() - kNamed);
  std::cerr << "causeway: " << out.string() << " has other .bin files, and the pattern below takes "
            << "them too: " << named
            << ". If they do not belong to these tokens, prepare into another directory, or name "
               "the files one by one\n";
}

int prepare(const PrepareFlags& flags) {
  const std::vector<fs::path> shards = shards_of(flags);
  const bool many = any_json_lines(flags);
  const intra::Tokenizer tokenizer(flags.tokenizer);
  const std::optional<std::int32_t> end = end_token(flags, tokenizer);
  if (many && !end && tokenizer.before().empty() && tokenizer.after().empty()) {
    std::cerr << "causeway: no token separates the documents, so the model cannot tell where one "
                 "ends; name such a token with --end\n";
  }
  fs::create_directories(flags.out);
  for (const fs::path& shard : shards) inter::remove_leftovers_of(shard);  // as large as the tokens
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const intra::ShardCount written =
        intra::write_shard(tokenizer, flags.texts[i], end, shards[i], flags.field);
    std::cout << shards[i].string() << ": " << written.tokens << " tokens";
    if (many) std::cout << " of " << written.documents << " documents";
    std::cout << "\n" << std::flush;
    tokens += written.tokens;
  }
  warn_of_others(flags.out, shards);
  const bool narrow =
      intra::shard_format(tokenizer.vocabulary()) == intra::DataOptions::Format::uint16;
  std::cout << tokens << " tokens in all. In the configuration:\n\n[model]\nvocabulary = "
            << tokenizer.vocabulary() << "\n\n[data]\nfiles = [" << pattern_of(flags.out)
            << "]\nformat = \"" << (narrow ? "uint16" : "uint32")
            << "\"\ntokenizer = " << run::quote(flags.tokenizer.string()) << "\n";
  return 0;
}

}  // namespace

void add_prepare(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PrepareFlags>();
  CLI::App* command =
      app.add_subcommand("prepare", "Turn texts into files of tokens, with a tokenizer.json");
  command
      ->add_option("TOKENIZER", flags->tokenizer,
                   "A tokenizer.json of Hugging Face, or the directory with it")
      ->required();
  command
      ->add_option(
          "TEXTS", flags->texts,
          "UTF-8 files, each one document; or .jsonl files, with one document in each line")
      ->required();
  command->add_option("--out", flags->out, "Directory for the tokens: NAME.bin for each text")
      ->required();
  command->add_option("--end", flags->end,
                      "Added token to put after each document, such as \"<|endoftext|>\"");
  command->add_option("--field", flags->field, "For .jsonl: the field that holds the text")
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = prepare(*flags); });
}

}  // namespace causeway::apps
