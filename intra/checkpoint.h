// Checkpoints: safetensors files (8-byte little-endian header length, JSON header, raw tensors),
// written to a temporary name, synced and renamed. A model checkpoint holds the named tensors and
// the model's settings as metadata; a training state holds flat spans. One reader and writer for
// both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
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

// Atomic: the file is complete under its name, on disk, or what was there before is still there.
// One writer per file at a time. Adds each tensor's SHA-256 to the metadata. Throws
// std::system_error naming the file.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

// Untrusted file: header, sizes and offsets are checked before use, and each tensor against its
// SHA-256 where the file has one. Only F32 tensors are accepted. Throws Errc::bad_checkpoint naming
// the file and what is wrong. The file stays open, so that replacing it by rename does not disturb
// a reader.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& file);
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::vector<std::string> names() const;
  std::vector<std::int64_t> shape(const std::string& name) const;
  void read(const std::string& name, std::span<float> out) const;  // size must match

 private:
  class File;
  class HeaderParser;
  struct Entry {
    std::vector<std::int64_t> shape;
    std::size_t begin = 0, count = 0;  // offset into the file in bytes; elements
    std::string sha256;                // hex; empty: the file has none
  };

  const Entry& find(const std::string& name) const;

  std::shared_ptr<const File> file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
};

// The model alone, for eval, generate and other programs: its named tensors, its settings as
// metadata "causeway.model.*", and the caller's metadata (run, round).
void save_model(const std::filesystem::path& file, const ModelOptions& options,
                const diloco::Layout& layout, std::span<const float> params,
                std::map<std::string, std::string> metadata);

struct LoadedModel {
  ModelOptions options;
  std::vector<float> params;                    // laid out by Layout(parameter_tensors(options))
  std::map<std::string, std::string> metadata;  // the caller's
};
// Throws Errc::bad_checkpoint naming the file if it is missing, corrupt, or its tensors are not
// those of its settings.
LoadedModel load_model(const std::filesystem::path& file);

}  // namespace causeway::intra
