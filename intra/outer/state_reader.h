// Entries of the files that a region's state is saved in (state_file.h, snapshot_file.h).
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"

namespace causeway::intra {

inline constexpr const char* kStateFormat = "causeway-state-3";

TensorView flat_tensor(const std::string& name, std::span<const float> values);

// Doubles go through their shortest exact text.
template <typename Number>
std::string to_metadata(Number value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Entries of an untrusted file. Throws Errc::bad_checkpoint naming it.
class StateReader {
 public:
  explicit StateReader(const std::filesystem::path& file) : file_(file), reader_(file) {}
  StateReader(const std::string& name, std::span<const std::byte> content)
      : file_(name), reader_(name, content) {}
  const std::filesystem::path& file() const { return file_; }
  // False: an earlier version wrote it, and damage to its metadata passes unseen.
  bool has_header_hash() const { return reader_.has_header_hash(); }
  bool has(const std::string& key) const { return reader_.metadata().contains(key); }
  const SafetensorsReader& tensors() const { return reader_; }
  const std::string& get(const std::string& key) const;
  template <typename Number>
  void read(const std::string& key, Number& out) const {
    const std::string& value = get(key);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc() || end != value.data() + value.size())
      refuse("entry " + key + " is not a number: " + value);
  }
  void read(const std::string& name, std::span<float> out) const { reader_.read(name, out); }
  // Of a span that this run may not keep, or that the run which wrote the file did not: zeros then.
  void read_kept(const std::string& name, std::span<float> out) const;
  // All of a tensor whose content something else vouches for: the file's own hash of it is not.
  void read_unhashed(const std::string& name, std::span<float> out) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::filesystem::path file_;
  SafetensorsReader reader_;
};

// Refuses a file of another format or another model.
void check_origin(const StateReader& reader, const diloco::Layout& layout);

}  // namespace causeway::intra
