// Model checkpoints, as Hugging Face's transformers lays them out: a directory with
//   config.json        what kind of model it is
//   model.safetensors  its tensors; published models may have several files and an index instead
//   tokenizer.json     and its companions, where there is a tokenizer
// A model trained here loads there, and a published one of the two families can be continued here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/model/model.h"

namespace causeway::intra {

// Where a run's model comes from, as directories of this kind; empty: from none.
struct ModelOrigin {
  std::filesystem::path model;      // whose weights the run began with
  std::filesystem::path tokenizer;  // that its data was made with; or its tokenizer.json
};

// What config.json says. Throws Errc::bad_checkpoint naming the file and the entry that is missing,
// impossible, or of a model that is neither of the two families.
ModelOptions read_model_options(const std::filesystem::path& directory);

// The weights of `directory`, which must be those of `options`; of a longer context the first
// positions are taken. Throws Errc::bad_checkpoint naming the file, the tensor and both shapes.
void read_weights(const std::filesystem::path& directory, const ModelOptions& options,
                  const diloco::Layout& layout, std::span<float> params);

// Each file is replaced whole, the weights last. Keeps what the origin's config.json says beyond
// the model's shape (its end-of-text token, for one), and copies the tokenizer's files.
// `metadata` (run, round) goes into the weights' file.
void save_model(const std::filesystem::path& directory, const ModelOptions& options,
                const diloco::Layout& layout, std::span<const float> params,
                const std::map<std::string, std::string>& metadata, const ModelOrigin& origin,
                StoredAs stored = StoredAs::fp32);

struct LoadedModel {
  ModelOptions options;
  std::vector<float> params;                    // laid out by Layout(parameter_tensors(options))
  std::map<std::string, std::string> metadata;  // of the weights' file, if there is but one
};
// `checkpoint` is such a directory, or the .safetensors file in it. Throws Errc::bad_checkpoint as
// the above do.
LoadedModel load_model(const std::filesystem::path& checkpoint);

}  // namespace causeway::intra
