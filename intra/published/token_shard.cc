#include "intra/published/token_shard.h"

#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/base/mapped_file.h"
#include "intra/published/documents.h"

namespace causeway::intra {
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
