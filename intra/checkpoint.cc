// Model checkpoints: safetensors files that say how to build their model.
#include "intra/checkpoint.h"

#include <cassert>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "intra/error.h"

namespace causeway::intra {
namespace {

using Metadata = std::map<std::string, std::string>;
using Family = ModelOptions::Family;
using Precision = ModelOptions::Precision;

constexpr std::string_view kPrefix = "causeway.model.";

// Names in files: do not rename.
constexpr std::pair<std::string_view, Family> kFamilies[] = {{"gpt2", Family::gpt2},
                                                             {"llama", Family::llama}};
constexpr std::pair<std::string_view, Precision> kPrecisions[] = {{"fp32", Precision::fp32},
                                                                  {"bf16", Precision::bf16}};

// Calls visit(key, field) for every setting, so that writing and reading cannot disagree.
template <typename Options, typename Visit>
void visit_settings(Options& options, Visit&& visit) {
  visit("family", options.family);
  visit("vocabulary", options.vocabulary);
  visit("context", options.context);
  visit("layers", options.layers);
  visit("width", options.width);
  visit("heads", options.heads);
  visit("kv_heads", options.kv_heads);
  visit("hidden", options.hidden);
  visit("rope_theta", options.rope_theta);
  visit("norm_epsilon", options.norm_epsilon);
  visit("dropout", options.dropout);
  visit("precision", options.precision);
}

template <typename Table, typename Value>
std::string name_in(const Table& table, Value value) {
  for (const auto& [name, candidate] : table) {
    if (candidate == value) return std::string(name);
  }
  assert(false && "a value without a name");
  std::abort();
}

std::string to_text(Family family) {
  return name_in(kFamilies, family);
}
std::string to_text(Precision precision) {
  return name_in(kPrecisions, precision);
}
// The shortest text that gives the same number again.
template <typename Number>
std::string to_text(Number number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// Each from_text returns whether `text` is a possible value.
template <typename Table, typename Value>
bool find_in(const Table& table, const std::string& text, Value& value) {
  for (const auto& [name, candidate] : table) {
    if (name != text) continue;
    value = candidate;
    return true;
  }
  return false;
}

bool from_text(const std::string& text, Family& family) {
  return find_in(kFamilies, text, family);
}
bool from_text(const std::string& text, Precision& precision) {
  return find_in(kPrecisions, text, precision);
}
template <typename Number>
bool from_text(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return false;
  return true;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw std::system_error(Errc::bad_checkpoint, file.string() + " " + why);
}

// Moves the settings out of `metadata`.
ModelOptions take_options(const std::filesystem::path& file, Metadata& metadata) {
  ModelOptions options;
  visit_settings(options, [&](std::string_view key, auto& field) {
    const auto found = metadata.find(std::string(kPrefix).append(key));
    if (found == metadata.end()) {
      refuse(file, "is no model checkpoint: it does not say its model's " + std::string(key));
    }
    if (!from_text(found->second, field)) {
      refuse(file, "has an impossible " + found->first + ": '" + found->second + "'");
    }
    metadata.erase(found);
  });
  return options;
}

// parameter_tensors() bounds the settings, and what it returns is checked against the file before a
// layout is made of it: the settings may lie, and nothing large may be allocated on their word.
std::vector<diloco::TensorSpec> expected_tensors(const std::filesystem::path& file,
                                                 const SafetensorsReader& reader,
                                                 const ModelOptions& options) {
  std::vector<diloco::TensorSpec> tensors;
  try {
    tensors = parameter_tensors(options);
  } catch (const std::system_error& error) {
    refuse(file, std::string("describes an impossible model: ") + error.what());
  }
  for (const diloco::TensorSpec& spec : tensors) {
    if (reader.shape(spec.name) != spec.shape) {
      refuse(file, "has another shape for tensor '" + spec.name + "' than its model");
    }
  }
  if (tensors.size() != reader.names().size())
    refuse(file, "has tensors that its model does not have");
  return tensors;
}

}  // namespace

void save_model(const std::filesystem::path& file, const ModelOptions& options,
                const diloco::Layout& layout, std::span<const float> params, Metadata metadata) {
  assert(params.size() == layout.size());
  visit_settings(options, [&](std::string_view key, const auto& field) {
    metadata[std::string(kPrefix).append(key)] = to_text(field);
  });
  std::vector<TensorView> tensors;
  for (const auto& [spec, offset] : layout.tensors()) {
    tensors.push_back({spec.name, spec.shape, params.subspan(offset, spec.count())});
  }
  write_safetensors(file, tensors, metadata);
}

LoadedModel load_model(const std::filesystem::path& file) {
  const SafetensorsReader reader(file);
  LoadedModel model;
  model.metadata = reader.metadata();
  model.options = take_options(file, model.metadata);
  const diloco::Layout layout(expected_tensors(file, reader, model.options));
  model.params.resize(layout.size());
  for (const auto& [spec, offset] : layout.tensors()) {
    reader.read(spec.name, std::span(model.params).subspan(offset, spec.count()));
  }
  return model;
}

}  // namespace causeway::intra
