#include "intra/published/checkpoint.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "intra/base/error.h"
#include "intra/base/foreign_json.h"
#include "intra/published/model_config.h"
#include "intra/published/model_weights.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

// This and the name of a file is the key of its SHA-256.
constexpr std::string_view kPrefix = "sha256.";

// None: there is no such file.
std::optional<std::string> hash_of(const fs::path& file) {
  const auto content = diloco::read_file(file);
  if (!content) return std::nullopt;
  return diloco::to_hex(diloco::sha256(std::as_bytes(std::span(*content))));
}

}  // namespace

void add_companions(const fs::path& directory, const std::vector<std::string>& names,
                    std::map<std::string, std::string>& metadata) {
  for (const std::string& name : names) {
    if (const auto hash = hash_of(directory / name)) metadata[std::string(kPrefix) + name] = *hash;
  }
}

std::vector<std::string> take_changed_companions(const fs::path& directory,
                                                 std::map<std::string, std::string>& metadata) {
  std::vector<std::string> changed;
  std::erase_if(metadata, [&](const auto& entry) {
    const auto& [key, hash] = entry;
    if (!key.starts_with(kPrefix)) return false;
    const fs::path name = fs::path(key.substr(kPrefix.size())).filename();
    if (hash_of(directory / name) != hash) changed.push_back(name);
    return true;
  });
  return changed;
}

std::vector<std::string> changed_companions(const fs::path& checkpoint) {
  auto metadata = WeightFiles(checkpoint).metadata();
  return take_changed_companions(
      fs::is_directory(checkpoint) ? checkpoint : checkpoint.parent_path(), metadata);
}

namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kUsualNames{"<|endoftext|>", "<|end_of_text|>", "</s>",
                                                      "<eos>", "<|end|>"};

// Null if there is none, or none that can be read.
json object_in(const std::filesystem::path& file) {
  try {
    json parsed = parse_foreign(diloco::read_file(file).value_or(""));
    return parsed.is_object() ? parsed : json::object();
  } catch (const std::system_error&) {
    return json::object();
  }
}

json entry(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? json() : *found;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<std::int64_t> number_of(const json& value) {
  const json& first = value.is_array() && !value.empty() ? value.front() : value;
  if (!first.is_number_unsigned()) return std::nullopt;
  return first.get<std::int64_t>();
}

// As tokenizer.json numbers it.
std::optional<std::int64_t> number_of_token(const json& tokenizer, const std::string& content) {
  for (const json& added : entry(tokenizer, "added_tokens")) {
    if (text_of(entry(added, "content")) == content) return number_of(entry(added, "id"));
  }
  return number_of(entry(entry(entry(tokenizer, "model"), "vocab"), content.c_str()));
}

std::optional<std::int64_t> usual_token(const json& tokenizer) {
  std::optional<std::int64_t> only;
  for (const json& added : entry(tokenizer, "added_tokens")) {
    const std::string content = text_of(entry(added, "content"));
    if (std::ranges::find(kUsualNames, content) == kUsualNames.end()) continue;
    if (only) return std::nullopt;
    only = number_of(entry(added, "id"));
  }
  return only;
}

}  // namespace

std::optional<std::int64_t> end_of_text(const std::filesystem::path& directory) {
  const json tokenizer = object_in(directory / "tokenizer.json");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const json token = entry(object_in(directory / name), "eos_token");
    const std::string content = text_of(token.is_object() ? entry(token, "content") : token);
    if (content.empty()) continue;
    if (const auto number = number_of_token(tokenizer, content)) return number;
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (const auto number = number_of(entry(object_in(directory / name), "eos_token_id")))
      return number;
  }
  return usual_token(tokenizer);
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kGeneration = "generation_config.json";

// All that tells text from tokens, and how to write with the model.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           kGeneration,
                                           "chat_template.jinja"};

fs::path directory_of(const fs::path& path) {
  return fs::is_directory(path) ? path : path.parent_path();
}

void copy_tokenizer(const fs::path& tokenizer, const fs::path& to,
                    std::optional<std::int64_t> end) {
  const fs::path from = directory_of(tokenizer);
  std::error_code unknown;
  if (tokenizer.empty() || fs::equivalent(from, to, unknown)) return;
  for (const char* name : kTokenizerFiles) {
    std::optional<std::string> content = diloco::read_file(from / name);
    if (!content) continue;
    if (end && std::string_view(name) == kGeneration) content = generation_config(*content, *end);
    diloco::replace_file(to / name, *content, diloco::Durability::on_disk);
  }
}

}  // namespace

ModelOptions read_model_options(const fs::path& directory) {
  return read_model_config(directory / kConfig);
}

void read_weights(const fs::path& directory, const ModelOptions& options,
                  const diloco::Layout& layout, std::span<float> params) {
  assert(params.size() == layout.size());
  WeightFiles weights(directory);
  weights.check(options);
  weights.read(options, layout, params);
}

void save_model(const fs::path& directory, const ModelOptions& options,
                const diloco::Layout& layout, std::span<const float> params,
                const std::map<std::string, std::string>& metadata, const ModelOrigin& origin,
                StoredAs stored) {
  diloco::create_private_directories(directory);
  std::optional<std::int64_t> end;
  if (!origin.tokenizer.empty()) end = end_of_text(directory_of(origin.tokenizer));
  if (end && *end >= options.vocabulary) end.reset();
  copy_tokenizer(origin.tokenizer, directory, end);
  const fs::path config = origin.model.empty() ? fs::path() : origin.model / kConfig;
  diloco::replace_file(directory / kConfig, model_config(options, config, end, stored),
                       diloco::Durability::on_disk);
  auto with_hashes = metadata;
  std::vector<std::string> companions{kConfig};
  companions.insert(companions.end(), std::begin(kTokenizerFiles), std::end(kTokenizerFiles));
  add_companions(directory, companions, with_hashes);
  write_weights(directory / kWeights, options, layout, params, with_hashes, stored);
}

LoadedModel load_model(const fs::path& checkpoint) {
  if (!fs::exists(checkpoint)) {
    throw std::system_error(Errc::bad_checkpoint,
                            checkpoint.string() + " does not exist; give a model's directory");
  }
  LoadedModel model;
  model.options = read_model_options(directory_of(checkpoint));
  WeightFiles weights(checkpoint);
  // Settings may lie: nothing large is allocated on their word alone.
  weights.check(model.options);
  const diloco::Layout layout(parameter_tensors(model.options));
  model.params.resize(layout.size());
  weights.read(model.options, layout, model.params);
  model.metadata = weights.metadata();
  // Whoever edits one on purpose makes one of these, so it is no refusal.
  for (const std::string& name :
       take_changed_companions(directory_of(checkpoint), model.metadata)) {
    spdlog::warn("{}: {} is not the one that was written with the weights",
                 directory_of(checkpoint).string(), name);
  }
  return model;
}

}  // namespace causeway::intra
