#include "intra/published/model_weights.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/base/foreign_json.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;
using Family = ModelOptions::Family;
using Shape = std::vector<std::int64_t>;

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr const char* kPositions = "transformer.wpe.weight";

bool is_transposed(const ModelOptions& options, const diloco::TensorSpec& spec) {
  return options.family == Family::gpt2 && spec.shape.size() == 2 &&
         spec.name.starts_with("transformer.h.");
}

// (columns, rows) of `values`, which are (rows, columns).
std::vector<float> transpose(std::span<const float> values, std::int64_t rows,
                             std::int64_t columns) {
  constexpr std::int64_t kTile = 32;  // reads and writes stay within a few pages
  std::vector<float> out(values.size());
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (auto r = r0; r < std::min(r0 + kTile, rows); ++r) {
        for (auto c = c0; c < std::min(c0 + kTile, columns); ++c) {
          out[static_cast<std::size_t>(c * rows + r)] =
              values[static_cast<std::size_t>(r * columns + c)];
        }
      }
    }
  }
  return out;
}

std::string to_text(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// Tables that old versions of transformers saved with a model, and a head that is the embedding.
bool may_be_skipped(const ModelOptions& options, const std::string& name) {
  const bool tied = options.family == Family::gpt2 || options.tied_head;
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq") || (tied && name.ends_with("lm_head.weight"));
}

// GPT-2's positions may be more than the model is to have.
bool fits(const ModelOptions& options, const diloco::TensorSpec& spec, Shape shape) {
  if (is_transposed(options, spec)) std::reverse(shape.begin(), shape.end());
  if (shape == spec.shape) return true;
  return spec.name == kPositions && shape.size() == 2 && shape[0] >= spec.shape[0] &&
         shape[1] == spec.shape[1];
}

}  // namespace

void write_weights(const fs::path& file, const ModelOptions& options, const diloco::Layout& layout,
                   std::span<const float> params,
                   const std::map<std::string, std::string>& metadata, StoredAs stored) {
  assert(params.size() == layout.size());
  std::vector<std::vector<float>> transposed;
  transposed.reserve(layout.tensors().size());
  std::vector<TensorView> tensors;
  for (const auto& [spec, offset] : layout.tensors()) {
    TensorView view{spec.name, spec.shape, params.subspan(offset, spec.count())};
    if (is_transposed(options, spec)) {
      view.values = transposed.emplace_back(transpose(view.values, spec.shape[0], spec.shape[1]));
      std::swap(view.shape[0], view.shape[1]);
    }
    tensors.push_back(std::move(view));
  }
  auto all_metadata = metadata;
  all_metadata["format"] = "pt";  // transformers asks which library's arrays these are
  write_safetensors(file, tensors, all_metadata, {}, stored);
}

WeightFiles::WeightFiles(const fs::path& path) : path_(path) {
  const fs::path one = fs::is_directory(path) ? path / "model.safetensors" : path;
  const fs::path index = path / "model.safetensors.index.json";
  if (!fs::exists(one) && fs::exists(index)) {
    open_shards(path, index);
  } else {
    files_.emplace(one.filename().string(), SafetensorsReader(one));
  }
  for (const auto& [file, reader] : files_) {
    for (const std::string& name : reader.names()) {
      const bool bare = name.starts_with("wte.") || name.starts_with("wpe.") ||
                        name.starts_with("h.") || name.starts_with("ln_f.");
      const std::string whole = (bare ? std::string(kGpt2Prefix) : "") + name;
      if (!tensors_.emplace(whole, Place{&reader, name}).second)
        refuse("has tensor '" + whole + "' twice");
    }
  }
}

// {"weight_map": {tensor: file}}: the files' own headers say what is in them.
void WeightFiles::open_shards(const fs::path& directory, const fs::path& index) {
  const nlohmann::json json = parse_foreign(diloco::read_file(index).value_or(""));
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty()) {
    refuse("has an index without a weight_map: " + index.string());
  }
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos) {
      refuse("has an index that names no file for tensor '" + tensor + "': " + file.dump());
    }
    if (!files_.contains(name)) files_.emplace(name, SafetensorsReader(directory / name));
  }
}

WeightFiles::Place WeightFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("has no tensor '" + name + "'");
  return found->second;
}

void WeightFiles::check(const ModelOptions& options) const {
  std::set<std::string> known;
  for (const diloco::TensorSpec& spec : parameter_tensors(options)) {
    const Place place = find(spec.name);
    const Shape shape = place.file->shape(place.name);
    if (!fits(options, spec, shape)) {
      Shape needed = spec.shape;
      if (is_transposed(options, spec)) std::swap(needed[0], needed[1]);
      refuse("has tensor '" + place.name + "' of shape " + to_text(shape) +
             " where its model needs " + to_text(needed));
    }
    known.insert(spec.name);
  }
  for (const auto& [name, place] : tensors_) {
    if (!known.contains(name) && !may_be_skipped(options, name))
      refuse("has tensor '" + place.name + "', which its model does not have");
  }
}

void WeightFiles::read(const ModelOptions& options, const diloco::Layout& layout,
                       std::span<float> params) {
  for (const auto& [spec, offset] : layout.tensors()) {
    const Place place = find(spec.name);
    const Shape shape = place.file->shape(place.name);
    const std::span<float> out = params.subspan(offset, spec.count());
    if (shape == spec.shape && !is_transposed(options, spec)) {
      place.file->read(place.name, out);
      continue;
    }
    std::vector<float> values(diloco::TensorSpec{spec.name, shape}.count());
    place.file->read(place.name, values);
    if (is_transposed(options, spec)) values = transpose(values, shape[0], shape[1]);
    std::copy_n(values.begin(), out.size(), out.begin());
  }
}

std::map<std::string, std::string> WeightFiles::metadata() const {
  if (files_.size() != 1) return {};
  auto metadata = files_.begin()->second.metadata();
  metadata.erase("format");
  return metadata;
}

void WeightFiles::refuse(const std::string& why) const {
  throw std::system_error(Errc::bad_checkpoint, path_.string() + " " + why);
}

}  // namespace causeway::intra
