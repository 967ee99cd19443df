// One file of tokens, mapped: text as bytes, plain integers, or a shard of llm.c. Its reader learns
// whether somebody wrote to it meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "intra/base/mapped_file.h"
#include "intra/data/data_options.h"

namespace causeway::intra {

class TokenFile {
 public:
  // How its tokens are looked through when it is opened.
  struct Look {
    std::uint64_t said_from_bytes = ~std::uint64_t{0};  // which takes long, so the log says it
    std::function<bool()> interrupted = {};             // empty: never
  };
  // Reads it once. Throws Errc::bad_data naming it and what is wrong (empty, odd size, bad magic, a
  // token that is not below `vocabulary`, with its position), and Errc::interrupted.
  TokenFile(const std::string& path, DataOptions::Format format, std::uint64_t vocabulary,
            const Look& look);
  TokenFile(const std::string& path, DataOptions::Format format, std::uint64_t vocabulary)
      : TokenFile(path, format, vocabulary, Look{}) {}

  std::uint64_t tokens() const { return place_.count; }
  // Tokens [first, first + out.size()). Throws Errc::data_changed for one outside the vocabulary,
  // which was not there when it was opened.
  void read(std::uint64_t first, std::span<std::int32_t> out) const;

  const MappedFile& file() const { return file_; }
  // As it was opened: its size and SHA-256 of kSampleBlocks blocks, evenly spread, the first and
  // the last among them; of the whole file if it is small.
  std::span<const std::byte> sample() const { return sample_; }
  static constexpr std::uint64_t kSampleBlocks = 16, kSampleBlockBytes = 1 << 16;

  // Throws Errc::data_changed if somebody wrote to it since it was opened. What was only touched,
  // or added to, is left with a warning, as a sample shows.
  void check_unchanged();
  // Likewise if whoever opens it now reads something else than this, or more.
  void check_is_current() const;

 private:
  // Its tokens: `count` of `width` bytes each, starting at byte `begin`.
  struct Place {
    std::size_t width = 1;
    std::size_t begin = 0;
    std::uint64_t count = 0;
  };
  static Place plain_place(const MappedFile& file, std::size_t width);
  static Place llmc_place(const MappedFile& file);
  static Place place_in(const MappedFile& file, DataOptions::Format format);
  const std::byte* first_byte() const;
  template <typename Token>
  void check_all(const Look& look) const;
  void leave_touched(const FileStamp& now);

  MappedFile file_;
  std::uint64_t vocabulary_;
  Place place_;
  std::vector<std::byte> sample_;
  std::optional<FileStamp> touched_;  // when somebody last wrote to it since, as far as was looked
};

}  // namespace causeway::intra
