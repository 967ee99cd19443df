#include "intra/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/maths/digest.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

[[noreturn]] void refuse_data(const MappedFile& file, const std::string& why) {
  throw std::system_error(Errc::bad_data, file.path().string() + " " + why);
}

[[noreturn]] void refuse_changed(const MappedFile& file, const std::string& how) {
  throw std::system_error(Errc::data_changed,
                          fmt::format("{} was written to while it was read: it {}. {}",
                                      file.path().string(), how, kHowToReplaceData));
}

// Size, and hashes of blocks, as TokenFile::sample() says.
std::vector<std::byte> sample_of(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kBlocks = TokenFile::kSampleBlocks, kBytes = TokenFile::kSampleBlockBytes;
  std::vector<std::byte> parts;
  const auto append = [&parts](const auto& value) {
    const auto added = std::as_bytes(std::span{&value, 1});
    parts.insert(parts.end(), added.begin(), added.end());
  };
  append(std::uint64_t{bytes.size()});
  if (bytes.size() <= kBlocks * kBytes) {
    append(diloco::sha256(bytes));
    return parts;
  }
  const std::uint64_t room = bytes.size() - kBytes;
  for (std::uint64_t block = 0; block + 1 < kBlocks; ++block)
    append(diloco::sha256(bytes.subspan(room / (kBlocks - 1) * block, kBytes)));
  append(diloco::sha256(bytes.last(kBytes)));
  return parts;
}

template <typename Token>
Token load(const std::byte* at) {
  Token token;
  std::memcpy(&token, at, sizeof token);
  return token;
}

// Calls visit(Token{}) with the unsigned type that is `width` bytes wide.
template <typename Visit>
void with_token_type(std::size_t width, Visit&& visit) {
  if (width == 1) return visit(std::uint8_t{});
  if (width == 2) return visit(std::uint16_t{});
  assert(width == 4);
  visit(std::uint32_t{});
}

}  // namespace

TokenFile::TokenFile(const std::string& path, DataOptions::Format format, std::uint64_t vocabulary,
                     const Look& look)
    : file_(path), vocabulary_(vocabulary), place_(place_in(file_, format)) {
  with_token_type(place_.width, [&](auto token) { check_all<decltype(token)>(look); });
  sample_ = sample_of(file_.bytes());
}

// ---- Formats ----

TokenFile::Place TokenFile::place_in(const MappedFile& file, DataOptions::Format format) {
  using Format = DataOptions::Format;
  switch (format) {
    case Format::text:
      return plain_place(file, 1);
    case Format::uint16:
      return plain_place(file, 2);
    case Format::uint32:
      return plain_place(file, 4);
    case Format::llmc:
      return llmc_place(file);
  }
  assert(false && "a format without a reader");
  std::abort();
}

TokenFile::Place TokenFile::plain_place(const MappedFile& file, std::size_t width) {
  const std::size_t size = file.bytes().size();
  if (size % width != 0) {
    refuse_data(
        file,
        fmt::format("has {} bytes, not a multiple of the {} bytes of a token; check data.format",
                    size, width));
  }
  return {width, 0, size / width};
}

// The shards of llm.c: 256 int32 (magic, version, token count, zeros), then the tokens.
TokenFile::Place TokenFile::llmc_place(const MappedFile& file) {
  constexpr std::size_t kHeaderBytes = 1024;
  constexpr std::int32_t kMagicGpt2 = 20240520, kVersionGpt2 = 1;      // uint16 tokens
  constexpr std::int32_t kMagicLlama3 = 20240801, kVersionLlama3 = 7;  // uint32 tokens
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kHeaderBytes)
    refuse_data(file, "is too short for llm.c's 1024-byte header; check data.format");
  const auto magic = load<std::int32_t>(bytes.data());
  const auto version = load<std::int32_t>(bytes.data() + 4);
  const auto count = load<std::int32_t>(bytes.data() + 8);
  std::size_t width = 0;
  if (magic == kMagicGpt2 && version == kVersionGpt2) width = 2;
  if (magic == kMagicLlama3 && version == kVersionLlama3) width = 4;
  if (width == 0) {
    refuse_data(file,
                fmt::format("has magic {} and version {}; a .bin shard of llm.c has 20240520 and 1 "
                            "(uint16 tokens) or 20240801 and 7 (uint32 tokens)",
                            magic, version));
  }
  if (count <= 0) refuse_data(file, fmt::format("says that it has {} tokens", count));
  const std::size_t expected = kHeaderBytes + width * static_cast<std::size_t>(count);
  if (bytes.size() != expected) {
    refuse_data(
        file, fmt::format("has {} bytes where its header's {} tokens need {}; copy the file again",
                          bytes.size(), count, expected));
  }
  return {width, kHeaderBytes, static_cast<std::uint64_t>(count)};
}

// ---- Tokens ----

const std::byte* TokenFile::first_byte() const {
  return file_.bytes().data() + place_.begin;
}

// Reads the whole file once, so that a token outside the vocabulary is found before hours of
// training, not after.
template <typename Token>
void TokenFile::check_all(const Look& look) const {
  if (std::uint64_t{std::numeric_limits<Token>::max()} < vocabulary_) return;
  if (const double bytes = static_cast<double>(place_.count) * sizeof(Token);
      bytes >= static_cast<double>(look.said_from_bytes)) {
    spdlog::info("looks through {} ({:.1f} GB): each of its tokens must be below model.vocabulary",
                 file_.path().string(), bytes / 1e9);
  }
  constexpr std::uint64_t kBlock = 1 << 16;
  const std::byte* const all = first_byte();
  const auto token = [all](std::uint64_t i) { return load<Token>(all + i * sizeof(Token)); };
  for (std::uint64_t block = 0; block < place_.count; block += kBlock) {
    const std::uint64_t end = std::min(block + kBlock, place_.count);
    if (look.interrupted && look.interrupted())
      throw std::system_error(Errc::interrupted, "stopped by a signal while it read the data");
    Token largest = 0;
    for (std::uint64_t i = block; i < end; ++i) largest = std::max(largest, token(i));
    if (largest < vocabulary_) continue;
    std::uint64_t i = block;
    while (token(i) < vocabulary_) ++i;
    refuse_data(file_, fmt::format("has token {} at position {}, but model.vocabulary is {}",
                                   token(i), i, vocabulary_));
  }
}

void TokenFile::read(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= place_.count && out.size() <= place_.count - first);
  with_token_type(place_.width, [&](auto type) {
    using Token = decltype(type);
    const std::byte* at = first_byte() + first * sizeof(Token);
    for (std::int32_t& token : out) {
      token = static_cast<std::int32_t>(load<Token>(at));
      at += sizeof(Token);
    }
  });
  // An embedding that does not exist would be read, and written to.
  std::uint32_t largest = 0;
  for (const std::int32_t token : out)
    largest = std::max(largest, static_cast<std::uint32_t>(token));
  if (largest < vocabulary_) return;
  refuse_changed(file_,
                 fmt::format("has token {} now, but model.vocabulary is {}", largest, vocabulary_));
}

// ---- Whoever writes to it ----

void TokenFile::check_unchanged() {
  const std::optional<MappedFile::Now> now = file_.now();
  const bool is_written =
      now && !now->is_another_file && now->stamp.was_written_since(file_.stamp());
  if (is_written) leave_touched(now->stamp);
}

// What is read of it is as before; otherwise it throws.
void TokenFile::leave_touched(const FileStamp& now) {
  const auto before = std::exchange(touched_, now);
  if (before && !now.was_written_since(*before)) return;
  if (sample_of(file_.bytes()) != sample_)
    refuse_changed(file_, "has other bytes than when it was opened");
  if (before) return;  // one warning is enough for a file that grows
  spdlog::warn(
      "{} was touched, or added to, while it was read. A sample shows that the part that is read "
      "has not changed",
      file_.path().string());
}

void TokenFile::check_is_current() const {
  const std::optional<MappedFile::Now> now = file_.now();
  if (!now) return;
  const bool is_written = now->stamp.was_written_since(file_.stamp());
  const bool is_other = now->is_another_file || now->stamp.size != file_.stamp().size ||
                        (is_written && sample_of(file_.bytes()) != sample_);
  if (!is_other) return;
  throw std::system_error(
      Errc::data_changed,
      file_.path().string() +
          " was replaced, or added to, since this worker opened it, and another rank may read it "
          "as it is now. The next start reads what is there then");
}

}  // namespace causeway::intra
