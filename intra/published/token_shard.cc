#include "intra/published/token_shard.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/base/foreign_json.h"
#include "intra/base/mapped_file.h"

namespace causeway::intra {
namespace {

using nlohmann::json;

struct Unreadable {
  std::string_view extension;  // empty: none of its own
  std::string_view magic;      // empty: none
  const char* what;
  const char* remedy;
};

constexpr const char* kUnpack = "unpack it first";
constexpr const char* kExport = "write its texts as .jsonl, one object on each line";
constexpr const char* kFromParquet =
    "write its texts as .jsonl, one object on each line: python -m causeway.texts FILE.parquet "
    "--out FILE.jsonl, of the Python package";
constexpr std::array<Unreadable, 13> kUnreadable{{
    {".parquet", "PAR1", "is Parquet", kFromParquet},
    {".arrow", "ARROW1", "is Arrow", kExport},
    {".feather", "", "is Arrow", kExport},
    {".json", "", "is one JSON value", kExport},
    {".gz", "\x1F\x8B", "is compressed (gzip)", kUnpack},
    {".zst", "\x28\xB5\x2F\xFD", "is compressed (zstd)", kUnpack},
    {".xz", "\xFD\x37zXZ", "is compressed (xz)", kUnpack},
    {".bz2", "BZh", "is compressed (bzip2)", kUnpack},
    {".zip", "PK\x03\x04", "is an archive (zip)", kUnpack},
    {".tar", "", "is an archive (tar)", kUnpack},
    {".pdf", "%PDF-", "is PDF", "convert it to text first"},
    {"", "\xFF\xFE", "is UTF-16", "convert it to UTF-8 first"},
    {"", "\xFE\xFF", "is UTF-16", "convert it to UTF-8 first"},
}};

[[noreturn]] void refuse_documents(const std::string& why) {
  throw std::system_error(make_error_code(Errc::bad_data), why);
}

std::string extension_of(const std::filesystem::path& file) {
  std::string extension = file.extension();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

std::string_view view(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The field of one line's object. What it was parsed from is shown nowhere: it may be a page long.
std::string text_in(std::string_view line, const std::string& field) {
  const json object = parse_foreign(std::string(line));
  if (!object.is_object()) refuse_documents("is not a JSON object in UTF-8");
  const auto found = object.find(field);
  if (found == object.end()) {
    std::string known;
    for (const auto& [name, value] : object.items()) {
      if (value.is_string()) known += (known.empty() ? "" : ", ") + name;
    }
    refuse_documents("has no field \"" + field + "\"; its texts are in: " +
                     (known.empty() ? "none" : known) + " (--field names another)");
  }
  if (!found->is_string()) {
    refuse_documents("has a field \"" + field + "\" that is " + found->type_name() +
                     " and not a text (--field names another)");
  }
  return found->get<std::string>();
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

DocumentFormat document_format(const std::filesystem::path& file) {
  constexpr std::size_t kLookedAt = 64 << 10;
  const MappedFile mapped(file);
  const std::string_view begin = view(mapped).substr(0, kLookedAt);
  const std::string extension = extension_of(file);
  for (const Unreadable& one : kUnreadable) {
    const bool named = !one.extension.empty() && extension == one.extension;
    if (!named && (one.magic.empty() || !begin.starts_with(one.magic))) continue;
    refuse_documents(file.string() + " " + one.what + ", which is not read; " + one.remedy);
  }
  if (begin.find('\0') != std::string_view::npos) {
    refuse_documents(file.string() +
                     " is binary data; give UTF-8 texts, or .jsonl with a text in each object");
  }
  return extension == ".jsonl" || extension == ".ndjson" ? DocumentFormat::json_lines
                                                         : DocumentFormat::text;
}

void each_document(std::string_view bytes, DocumentFormat format, const std::string& field,
                   const std::function<void(std::string_view)>& take) {
  if (format == DocumentFormat::text) return take(bytes);
  for (std::uint64_t number = 1; !bytes.empty(); ++number) {
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    if (is_blank(line)) continue;
    try {
      take(text_in(line, field));
    } catch (const std::system_error& error) {
      if (error.code() != Errc::bad_data) throw;
      refuse_documents(fmt::format("line {} {}", number, message_of(error)));
    }
  }
}

namespace {

// Writes tokens as `Token`, in blocks.
template <typename Token>
class Shard {
 public:
  explicit Shard(const std::filesystem::path& path) : file_(path) { block_.reserve(kBlock); }

  void append(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      block_.push_back(static_cast<Token>(token));
      if (block_.size() == kBlock) flush();
    }
    count_ += tokens.size();
  }
  std::uint64_t commit() {
    flush();
    file_.commit(diloco::Durability::on_disk);
    return count_;
  }

 private:
  static constexpr std::size_t kBlock = 1 << 16;

  void flush() {
    file_.append(std::as_bytes(std::span(block_)));
    block_.clear();
  }

  diloco::AtomicFile file_;
  std::vector<Token> block_;
  std::uint64_t count_ = 0;
};

struct Source {
  std::string_view bytes;
  DocumentFormat format;
  const std::string& field;
};

template <typename Token>
ShardCount write(const Tokenizer& tokenizer, const Source& source, std::optional<std::int32_t> end,
                 const std::filesystem::path& path) {
  Shard<Token> shard(path);
  ShardCount count;
  each_document(source.bytes, source.format, source.field, [&](std::string_view text) {
    shard.append(tokenizer.before());
    tokenizer.encode(text, [&](std::span<const std::int32_t> tokens) { shard.append(tokens); });
    shard.append(tokenizer.after());
    if (end) shard.append(std::span(&*end, 1));
    ++count.documents;
  });
  count.tokens = shard.commit();
  return count;
}

}  // namespace

DataOptions::Format shard_format(std::int64_t vocabulary) {
  return vocabulary <= 65'536 ? DataOptions::Format::uint16 : DataOptions::Format::uint32;
}

ShardCount write_shard(const Tokenizer& tokenizer, const std::filesystem::path& text,
                       std::optional<std::int32_t> end, const std::filesystem::path& shard,
                       const std::string& field) {
  const DocumentFormat format = document_format(text);
  const MappedFile file(text);
  const Source source{
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, format, field};
  const bool narrow = shard_format(tokenizer.vocabulary()) == DataOptions::Format::uint16;
  try {
    return narrow ? write<std::uint16_t>(tokenizer, source, end, shard)
                  : write<std::uint32_t>(tokenizer, source, end, shard);
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_data) throw;
    throw std::system_error(error.code(), text.string() + ": " + message_of(error));
  }
}

}  // namespace causeway::intra
