// Safetensors files: 8-byte little-endian header length, JSON header, raw tensors. Model
// checkpoints (checkpoint.h) and training states (state_file.h) are both such files, of one writer
// and reader.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diloco/maths/digest.h"

namespace causeway::intra {

// What the writer and the reader of safetensors files share: uint64 little-endian header length,
// JSON header, tensors.
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

inline constexpr std::size_t kSafetensorsLengthBytes = 8;
// The bound of the reference implementation.
inline constexpr std::size_t kSafetensorsHeaderBytesMax = 100'000'000;
// Our own additions are metadata, so that other readers ignore them. Two of them say that a file is
// ours, so that no damage to one name makes it look like another program's.
inline constexpr std::string_view kSafetensorsOwnPrefix = "causeway.";
inline constexpr std::string_view kSafetensorsFormatKey = "causeway.format";
inline constexpr std::string_view kSafetensorsFormat =
    "2";  // 1, without this key, had tensor hashes alone
inline constexpr std::string_view kSafetensorsHeaderKey = "causeway.header";
// This and a tensor's name is the key of the tree hash (diloco/maths/digest.h) of its bytes.
inline constexpr std::string_view kSafetensorsTreePrefix = "causeway.tree.";
// What earlier versions wrote in its place: the SHA-256.
inline constexpr std::string_view kSafetensorsSha256Prefix = "causeway.sha256.";

// The SHA-256, in hex, of a header's length (8 bytes) and its text, in which the digits of this
// hash count as zeros; and the one that the text says it is. Nothing if it says none.
struct HeaderHash {
  std::size_t place = 0;  // of the digits in the text
  std::string said, computed;
};
std::optional<HeaderHash> header_hash(std::string text);

// One tensor to write: row-major fp32.
struct TensorView {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
  std::optional<diloco::Digest> hash = {};  // the tree hash of the values' bytes, if it is known
};

// Called while a file is written.
struct WriteHooks {
  // Tensor `index` is hashed and written: its values are not read any more. From any thread.
  std::function<void(std::size_t index)> tensor_read = {};
  // All bytes are on disk, and what was there before still has the name.
  std::function<void()> before_it_is_named = {};
};

// How its numbers are written: as they are, or each rounded to the nearest bf16.
enum class StoredAs : std::uint8_t { fp32, bf16 };

// Atomic: the file is complete under its name, on disk, or what was there before is still there.
// One writer per file at a time. Adds to the metadata the hash of each tensor, and that of the
// header, which has the metadata. Throws std::system_error naming the file.
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const WriteHooks& hooks = {}, StoredAs stored = StoredAs::fp32);

// Untrusted file: header, sizes and offsets are checked before use, the header and each tensor
// against their hashes where the file has them. Tensors of any type of the format may be there;
// F32, BF16 and F16 can be read. Throws Errc::bad_checkpoint naming the file and what is wrong. The
// file stays open, so that replacing it by rename does not disturb a reader.
class SafetensorsReader {
 public:
  // `header_bytes_max`: fewer where a stranger made it, because reading it takes many times as much
  // memory.
  explicit SafetensorsReader(const std::filesystem::path& file,
                             std::size_t header_bytes_max = kSafetensorsHeaderBytesMax);
  // Of a file's content, which outlives the reader; messages name it so.
  SafetensorsReader(std::string name, std::span<const std::byte> content);
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // False: of another program, or of a version of ours that did not hash it.
  bool has_header_hash() const { return has_header_hash_; }
  bool has(const std::string& name) const;
  std::vector<std::string> names() const;  // ascending
  std::vector<std::int64_t> shape(const std::string& name) const;
  void read(const std::string& name, std::span<float> out) const;  // size must match
  // Elements from `first` on, of a tensor of F32. They are not compared with its hash.
  void read_part(const std::string& name, std::size_t first, std::span<float> out) const;
  // For whoever hashed what was read in parts: throws if the file has another tree hash of it.
  void check_hash(const std::string& name, const diloco::Digest& tree) const;

 private:
  class File;
  class HeaderParser;
  struct Entry {
    std::vector<std::int64_t> shape;
    std::string type;                             // as the format calls it
    std::size_t begin = 0, bytes = 0, count = 0;  // from the file's start; elements
    std::string tree, sha256;                     // hex; empty: the file has none
  };

  explicit SafetensorsReader(std::shared_ptr<const File> file);
  const Entry& find(const std::string& name) const;
  void read_bytes(const std::string& name, std::span<std::byte> out) const;
  [[noreturn]] void refuse_content(const std::string& name) const;

  std::shared_ptr<const File> file_;
  bool has_header_hash_ = false;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> entries_;
};

}  // namespace causeway::intra
