#include "intra/published/checkpoint.h"

#include <cassert>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/published/companions.h"
#include "intra/published/end_of_text.h"
#include "intra/published/model_config.h"
#include "intra/published/model_weights.h"

namespace causeway::intra {
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
