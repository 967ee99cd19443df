#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "compression/base/float16.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "intra/base/error.h"
#include "intra/base/foreign_json.h"
#include "intra/base/safetensors.h"

namespace causeway::intra {

using nlohmann::json;

class SafetensorsReader::File {
 public:
  File(const std::filesystem::path& path, std::size_t header_bytes_max)
      : path_(path), header_bytes_max_(header_bytes_max) {
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0 && errno == ENOENT) refuse("cannot be opened: " + reason(errno));
    if (descriptor_ < 0) cannot_be("opened", errno);
    try {
      size_ = regular_size();
    } catch (...) {
      close(descriptor_);
      throw;
    }
  }
  File(std::string name, std::span<const std::byte> content)
      : path_(std::move(name)), content_(content), size_(content.size()) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::size_t size() const { return size_; }
  std::size_t header_bytes_max() const { return header_bytes_max_; }

  void read_at(std::size_t offset, std::span<std::byte> out) const {
    constexpr std::size_t kWorthAThread = 4 * diloco::kPieceBytes;
    if (descriptor_ < 0) {
      std::ranges::copy(content_.subspan(offset, out.size()), out.begin());
    } else if (out.size() < kWorthAThread) {
      read_piece(offset, out);
    } else {
      diloco::take_turns((out.size() - 1) / diloco::kPieceBytes + 1, [&](std::size_t piece, auto) {
        const std::size_t begin = piece * diloco::kPieceBytes;
        read_piece(offset + begin,
                   out.subspan(begin, std::min(diloco::kPieceBytes, out.size() - begin)));
      });
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::system_error(Errc::bad_checkpoint, path_.string() + " " + why);
  }

 private:
  std::size_t regular_size() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) cannot_be("examined", errno);
    if (!S_ISREG(status.st_mode)) refuse("is not a regular file");
    return static_cast<std::size_t>(status.st_size);
  }
  void read_piece(std::size_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t got = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) cannot_be("read", errno);
      if (got == 0) refuse("became shorter while it was read; another program writes to it");
      offset += static_cast<std::size_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }
  [[noreturn]] void cannot_be(const char* what, int error) const {
    throw UnreadableFile(Errc::bad_checkpoint,
                         fmt::format("{} cannot be {}: {}", path_.string(), what, reason(error)));
  }
  static std::string reason(int error) { return std::generic_category().message(error); }

  std::filesystem::path path_;
  std::size_t header_bytes_max_ = kSafetensorsHeaderBytesMax;
  int descriptor_ = -1;
  std::span<const std::byte> content_;  // where there is no descriptor
  std::size_t size_ = 0;
};

namespace {

// Bytes of an element, or 0 if the format has no such type.
std::size_t element_bytes(std::string_view type) {
  constexpr std::pair<std::string_view, std::size_t> kTypes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return 0;
}

// A header nests three deep: the object of tensors, a tensor's object, its arrays.
constexpr int kDepthMax = 3;

// Refuses what the parser would let pass: deep nesting, and a name given twice, of which it would
// keep the last.
class HeaderRules final : public NestingWatch {
 public:
  HeaderRules() : NestingWatch(kDepthMax) {}
  bool start_object(std::size_t size) override {
    if (!NestingWatch::start_object(size)) return false;
    names_[depth() - 1].clear();
    return true;
  }
  bool key(std::string& name) override {
    if (names_[depth() - 1].insert(name).second) return true;
    throw std::invalid_argument("has the name " + json(name).dump() + " twice");
  }

 private:
  std::set<std::string> names_[kDepthMax];  // of the object now open at each depth
};

json parse_header(const std::string& text) {
  HeaderRules rules;
  json::sax_parse(text, &rules);
  if (rules.too_deep()) throw std::invalid_argument("nests too deep");
  json header = json::parse(text);
  if (!header.is_object()) throw std::invalid_argument("is not an object");
  return header;
}

// Elements of `shape`, or nothing if it is no list of sizes whose product is at most `limit`.
std::optional<std::size_t> element_count(const json& shape, std::size_t limit) {
  if (!shape.is_array()) return std::nullopt;
  std::size_t count = 1;
  for (const json& dimension : shape) {
    if (!dimension.is_number_unsigned()) return std::nullopt;
    const auto size = dimension.get<std::uint64_t>();
    if (size != 0 && count > limit / size) return std::nullopt;
    count *= size;
  }
  return count <= limit ? std::optional(count) : std::nullopt;
}

}  // namespace

class SafetensorsReader::HeaderParser {
 public:
  explicit HeaderParser(const File& file);
  std::map<std::string, Entry> take_entries() { return std::move(entries_); }
  std::map<std::string, std::string> take_metadata() { return std::move(metadata_); }
  bool has_hash() const { return has_hash_; }

 private:
  std::string read_text();
  void check_hash(const std::string& text);
  void check_format(const json& metadata) const;
  Entry make_entry(const std::string& name, const json& description) const;
  void check_data_is_covered() const;
  void read_metadata(const json& metadata);

  const File& file_;
  std::size_t data_begin_ = 0;
  bool has_hash_ = false;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

SafetensorsReader::HeaderParser::HeaderParser(const File& file) : file_(file) {
  const std::string text = read_text();
  check_hash(text);
  json header;
  try {
    header = parse_header(text);
  } catch (const std::exception& error) {
    file_.refuse(std::string("has a bad header: ") + error.what());
  }
  for (const auto& [name, description] : header.items()) {
    if (name != "__metadata__") entries_.emplace(name, make_entry(name, description));
  }
  check_data_is_covered();
  const json metadata = header.value("__metadata__", json::object());
  read_metadata(metadata);
  check_format(metadata);
}

void SafetensorsReader::HeaderParser::check_hash(const std::string& text) {
  const auto hash = header_hash(text);
  has_hash_ = hash.has_value();
  if (hash && hash->said != hash->computed) {
    file_.refuse("is damaged: its header does not match its hash");
  }
}

void SafetensorsReader::HeaderParser::check_format(const json& metadata) const {
  const auto format = metadata.find(std::string(kSafetensorsFormatKey));
  if ((format != metadata.end()) != has_hash_) {
    file_.refuse("is damaged: its header lacks its hash or its format");
  }
  if (has_hash_ && format->get<std::string>() != kSafetensorsFormat) {
    file_.refuse("was written by a later version of Causeway: its format is " + format->dump());
  }
}

std::string SafetensorsReader::HeaderParser::read_text() {
  if (file_.size() < kSafetensorsLengthBytes) file_.refuse("is too short to be a checkpoint");
  std::uint64_t length = 0;
  file_.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > std::min(file_.header_bytes_max(), file_.size() - kSafetensorsLengthBytes)) {
    file_.refuse(fmt::format(
        "is not a safetensors file or is incomplete: its header would have {} bytes", length));
  }
  std::string text(length, '\0');
  file_.read_at(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin_ = kSafetensorsLengthBytes + length;
  return text;
}

SafetensorsReader::Entry SafetensorsReader::HeaderParser::make_entry(
    const std::string& name, const json& description) const {
  const std::string tensor = "has a bad header: tensor '" + name + "' ";
  if (!description.is_object()) file_.refuse(tensor + "is not described by an object");
  const json type = description.value("dtype", json());
  const std::size_t width = type.is_string() ? element_bytes(type.get<std::string>()) : 0;
  if (width == 0) file_.refuse(tensor + "has no dtype that is known: " + type.dump());
  const json offsets = description.value("data_offsets", json());
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    file_.refuse(tensor + "has no pair of data_offsets");
  }
  const std::size_t data_bytes = file_.size() - data_begin_;
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_bytes) {
    file_.refuse(tensor + "lies outside the file; the file is incomplete, copy it again");
  }
  const json shape = description.value("shape", json());
  const auto count = element_count(shape, data_bytes / width);
  if (!count || *count * width != end - begin) {
    file_.refuse(tensor + "has a shape that is not the size of its data");
  }
  return {.shape = shape.get<std::vector<std::int64_t>>(),
          .type = type.get<std::string>(),
          .begin = data_begin_ + begin,
          .bytes = end - begin,
          .count = *count,
          .tree = "",
          .sha256 = ""};
}

// The format has neither holes nor overlaps, so that every byte of a file means something.
void SafetensorsReader::HeaderParser::check_data_is_covered() const {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const auto& [name, entry] : entries_) {
    ranges.emplace_back(entry.begin, entry.begin + entry.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  std::size_t covered = data_begin_;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) file_.refuse("has tensors that overlap or leave a hole");
    covered = end;
  }
  if (covered != file_.size()) file_.refuse("has bytes that belong to no tensor");
}

void SafetensorsReader::HeaderParser::read_metadata(const json& metadata) {
  if (!metadata.is_object()) file_.refuse("has a bad header: __metadata__ is not an object");
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) file_.refuse("has a bad header: metadata '" + key + "' is no string");
    if (!key.starts_with(kSafetensorsOwnPrefix)) {
      metadata_.emplace(key, value.get<std::string>());
      continue;
    }
    for (const auto& [prefix, hash] : {std::pair(kSafetensorsTreePrefix, &Entry::tree),
                                       std::pair(kSafetensorsSha256Prefix, &Entry::sha256)}) {
      if (!key.starts_with(prefix)) continue;
      const auto entry = entries_.find(key.substr(prefix.size()));
      if (entry != entries_.end()) entry->second.*hash = value.get<std::string>();
    }
  }
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& file,
                                     std::size_t header_bytes_max)
    : SafetensorsReader(std::make_shared<const File>(file, header_bytes_max)) {}

SafetensorsReader::SafetensorsReader(std::string name, std::span<const std::byte> content)
    : SafetensorsReader(std::make_shared<const File>(std::move(name), content)) {}

SafetensorsReader::SafetensorsReader(std::shared_ptr<const File> file) : file_(std::move(file)) {
  HeaderParser header(*file_);
  entries_ = header.take_entries();
  metadata_ = header.take_metadata();
  has_header_hash_ = header.has_hash();
}

const SafetensorsReader::Entry& SafetensorsReader::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) file_->refuse("has no tensor '" + name + "'");
  return found->second;
}

bool SafetensorsReader::has(const std::string& name) const {
  return entries_.contains(name);
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::vector<std::int64_t> SafetensorsReader::shape(const std::string& name) const {
  return find(name).shape;
}

void SafetensorsReader::read(const std::string& name, std::span<float> out) const {
  const Entry& entry = find(name);
  if (entry.count != out.size()) {
    file_->refuse(fmt::format(
        "has {} elements in tensor '{}' where {} are needed; the file is of another model",
        entry.count, name, out.size()));
  }
  if (entry.type == "F32") return read_bytes(name, std::as_writable_bytes(out));
  const bool bf16 = entry.type == "BF16";
  if (!bf16 && entry.type != "F16") {
    file_->refuse("has tensor '" + name + "' as " + entry.type +
                  ", which cannot be read; F32, BF16 and F16 can");
  }
  std::vector<std::uint16_t> halves(out.size());
  read_bytes(name, std::as_writable_bytes(std::span(halves)));
  std::transform(halves.begin(), halves.end(), out.begin(),
                 bf16 ? compression::bf16_value : compression::fp16_value);
}

void SafetensorsReader::read_part(const std::string& name, std::size_t first,
                                  std::span<float> out) const {
  const Entry& entry = find(name);
  if (entry.type != "F32" || first > entry.count || out.size() > entry.count - first)
    file_->refuse("has no such part of F32 in tensor '" + name + "'");
  file_->read_at(entry.begin + first * sizeof(float), std::as_writable_bytes(out));
}

void SafetensorsReader::read_bytes(const std::string& name, std::span<std::byte> out) const {
  const Entry& entry = find(name);
  file_->read_at(entry.begin, out);
  if (!entry.tree.empty()) check_hash(name, diloco::tree_hash(out));
  if (!entry.sha256.empty() && diloco::to_hex(diloco::sha256(out)) != entry.sha256)
    refuse_content(name);
}

void SafetensorsReader::check_hash(const std::string& name, const diloco::Digest& tree) const {
  const Entry& entry = find(name);
  if (!entry.tree.empty() && diloco::to_hex(tree) != entry.tree) refuse_content(name);
}

void SafetensorsReader::refuse_content(const std::string& name) const {
  file_->refuse("is damaged: tensor '" + name + "' does not match its hash");
}

}  // namespace causeway::intra
