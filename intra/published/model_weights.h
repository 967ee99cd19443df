// The tensors of a model under the names and in the shapes that Hugging Face gives them. They are
// ours but for two things: its GPT-2 keeps the weights of linear layers transposed, (in, out), and
// some of its GPT-2 files leave out "transformer." before the names. Rotary positions pair element
// i of a head with element i + half in both.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/model/model.h"

namespace causeway::intra {

void write_weights(const std::filesystem::path& file, const ModelOptions& options,
                   const diloco::Layout& layout, std::span<const float> params,
                   const std::map<std::string, std::string>& metadata,
                   StoredAs stored = StoredAs::fp32);

// Untrusted files. All throw Errc::bad_checkpoint naming the file and the tensor.
class WeightFiles {
 public:
  // A .safetensors file; or the directory of model.safetensors, or of model.safetensors.index.json
  // and the files that it names.
  explicit WeightFiles(const std::filesystem::path& path);
  WeightFiles(const WeightFiles&) = delete;
  WeightFiles& operator=(const WeightFiles&) = delete;

  // Refuses tensors that are missing, have another shape than the model's, or are none of its own.
  void check(const ModelOptions& options) const;
  // After check().
  void read(const ModelOptions& options, const diloco::Layout& layout, std::span<float> params);
  // Of the weights' only file.
  std::map<std::string, std::string> metadata() const;

 private:
  struct Place {
    const SafetensorsReader* file;
    std::string name;  // in it
  };

  void open_shards(const std::filesystem::path& directory, const std::filesystem::path& index);
  Place find(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path path_;
  std::map<std::string, SafetensorsReader> files_;  // by file name
  std::map<std::string, Place> tensors_;            // by their names, with "transformer."
};

}  // namespace causeway::intra
