// Checkpoints: safetensors files (8-byte little-endian header length, JSON header, raw tensors), written to a temporary name, synced and
// renamed. A model checkpoint holds the named tensors and the model's settings as metadata; a training state
// holds flat spans. One reader and writer for both.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "diloco/layout.h"
#include "intra/model/model.h"

namespace causeway::intra {

// One tensor to write: row-major fp32.
struct TensorView {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};

// Atomic: the file is complete under its name or not there. Throws std::system_error naming the file.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

// Untrusted file: sizes and offsets are checked. Throws Errc::bad_checkpoint naming the file and what is wrong.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& file);
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::vector<std::string> names() const;
  std::vector<std::int64_t> shape(const std::string& name) const;
  void read(const std::string& name, std::span<float> out) const;  // size must match

 private:
  struct Entry {
    std::vector<std::int64_t> shape;
    std::size_t begin = 0, count = 0;
  };
  std::filesystem::path file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
};

// The model alone, for eval, generate and other programs. Metadata: model settings, run, round.
void save_model(const std::filesystem::path& file, const ModelOptions& options, const diloco::Layout& layout,
                std::span<const float> params, std::map<std::string, std::string> metadata);

struct LoadedModel {
  ModelOptions options;
  std::vector<float> params;  // laid out by Layout(parameter_tensors(options))
  std::map<std::string, std::string> metadata;
};
LoadedModel load_model(const std::filesystem::path& file);

}  // namespace causeway::intra
