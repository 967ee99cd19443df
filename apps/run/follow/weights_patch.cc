#include "apps/run/follow/weights_patch.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <zstd.h>

#include "apps/run/follow/weights_image.h"
#include "diloco/files/error.h"
#include "inter/base/atomic_file.h"
#include "inter/base/file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPatchMagic = "causeway patch 1";

[[noreturn]] void refuse_patch(const fs::path& patch, const std::string& why) {
  throw std::system_error(make_error_code(diloco::Errc::malformed),
                          patch.string() + " is no patch of these weights: " + why);
}

constexpr std::uint16_t kBf16Sign = 0x8000;
constexpr std::uint16_t ordered(std::uint16_t bits) {
  return static_cast<std::uint16_t>((bits & kBf16Sign) != 0 ? ~bits : bits | kBf16Sign);
}
constexpr std::uint16_t unordered(std::uint16_t place) {
  return static_cast<std::uint16_t>((place & kBf16Sign) != 0 ? place & ~kBf16Sign : ~place);
}
constexpr std::uint16_t difference(std::uint16_t before, std::uint16_t after) {
  const auto d = static_cast<std::int16_t>(ordered(after) - ordered(before));
  return static_cast<std::uint16_t>((static_cast<unsigned>(d) << 1) ^ (d < 0 ? 0xFFFFU : 0U));
}
constexpr std::uint16_t moved(std::uint16_t before, std::uint16_t stored) {
  const auto d = static_cast<std::uint16_t>((stored >> 1) ^ ((stored & 1) != 0 ? 0xFFFF : 0));
  return unordered(static_cast<std::uint16_t>(ordered(before) + d));
}

constexpr std::size_t kReadBytes = 1 << 20;
constexpr int kLevel = 3;
constexpr int kWindowLogMax = 27;  // of a stranger's stream: 128 MiB

std::size_t checked(std::size_t result) {
  if (ZSTD_isError(result) != 0)
    throw std::system_error(std::make_error_code(std::errc::not_enough_memory),
                            std::string("a patch: ") + ZSTD_getErrorName(result));
  return result;
}

// A file of one Zstandard stream.
class CompressedFile {
 public:
  explicit CompressedFile(const fs::path& file)
      : out_(file), stream_(ZSTD_createCCtx(), &ZSTD_freeCCtx), buffer_(ZSTD_CStreamOutSize()) {
    checked(ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_compressionLevel, kLevel));
  }
  void append(std::span<const std::byte> bytes) { put(bytes, ZSTD_e_continue); }
  void commit() {
    put({}, ZSTD_e_end);
    out_.commit(inter::Durability::visible);
  }

 private:
  void put(std::span<const std::byte> bytes, ZSTD_EndDirective how) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
      const std::size_t left = checked(ZSTD_compressStream2(stream_.get(), &out, &in, how));
      out_.append(std::span(buffer_).first(out.pos));
      if (how == ZSTD_e_end ? left == 0 : in.pos == in.size) return;
    }
  }

  inter::AtomicFile out_;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> stream_;
  std::vector<std::byte> buffer_;
};

// The same to read: a stranger's. It gives what it is asked for and no more, so that few bytes that
// stand for many cost nothing.
class ExpandedFile {
 public:
  explicit ExpandedFile(const fs::path& path)
      : path_(path),
        file_(path, O_RDONLY | O_CLOEXEC),
        stream_(ZSTD_createDCtx(), &ZSTD_freeDCtx),
        buffer_(kReadBytes) {
    checked(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kWindowLogMax));
  }
  void read(std::span<std::byte> bytes) {
    if (take(bytes) < bytes.size()) refuse_patch(path_, "it is too short");
  }
  void end() {
    std::byte more{};
    if (take({&more, 1}) != 0) refuse_patch(path_, "it is too long");
    if (!whole_) refuse_patch(path_, "it is cut off");
  }

 private:
  std::size_t take(std::span<std::byte> bytes) {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
    for (;;) {
      if (in_.pos == in_.size) {
        in_ = {buffer_.data(), file_.read_at(offset_, buffer_), 0};
        offset_ += in_.size;
      }
      const bool has_input = in_.pos < in_.size;
      const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(left) != 0) refuse_patch(path_, ZSTD_getErrorName(left));
      if (has_input) whole_ = left == 0;
      if (out.pos == out.size || (in_.size == 0 && in_.pos == 0)) return out.pos;
    }
  }

  fs::path path_;
  inter::File file_;
  std::uint64_t offset_ = 0;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> stream_;
  std::vector<std::byte> buffer_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool whole_ = false;
};

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

}  // namespace

void write_weights_patch(const fs::path& from, const fs::path& to, const fs::path& patch) {
  const WeightsImage earlier(from), later(to);
  const auto before = earlier.weights(), after = later.weights();
  if (before.size() != after.size()) refuse_patch(patch, "their numbers differ");
  const std::string header = later.header();
  const std::uint64_t length = header.size();
  CompressedFile out(patch);
  out.append(std::as_bytes(std::span(kPatchMagic)));
  out.append(bytes_of(length));
  out.append(std::as_bytes(std::span(header)));
  std::vector<std::uint8_t> planes(2 * std::min(before.size(), kImagePieceElements));
  for (std::size_t begin = 0; begin < before.size(); begin += kImagePieceElements) {
    const std::size_t count = std::min(before.size() - begin, kImagePieceElements);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t stored = difference(before[begin + i], after[begin + i]);
      planes[i] = static_cast<std::uint8_t>(stored & 0xFF);
      planes[count + i] = static_cast<std::uint8_t>(stored >> 8);
    }
    out.append(std::as_bytes(std::span(planes).first(2 * count)));
  }
  out.commit();
}

void apply_weights_patch(const fs::path& from, const fs::path& patch, const fs::path& to) {
  const WeightsImage earlier(from);
  const auto before = earlier.weights();
  ExpandedFile in(patch);
  std::array<char, kPatchMagic.size()> magic{};
  in.read(std::as_writable_bytes(std::span(magic)));
  if (!std::ranges::equal(magic, kPatchMagic)) refuse_patch(patch, "it begins with something else");
  std::uint64_t length = 0;
  in.read(std::as_writable_bytes(std::span(&length, 1)));
  if (length > kImageHeaderBytesMax) refuse_patch(patch, "its header is too long");
  std::vector<std::byte> header(length);
  in.read(header);
  inter::AtomicFile out(to);
  out.append(bytes_of(length));
  out.append(header);
  std::vector<std::uint8_t> planes(2 * std::min(before.size(), kImagePieceElements));
  std::vector<std::uint16_t> after(planes.size() / 2);
  for (std::size_t begin = 0; begin < before.size(); begin += kImagePieceElements) {
    const std::size_t count = std::min(before.size() - begin, kImagePieceElements);
    in.read(std::as_writable_bytes(std::span(planes).first(2 * count)));
    for (std::size_t i = 0; i < count; ++i) {
      const auto stored = static_cast<std::uint16_t>(planes[i] | planes[count + i] << 8);
      after[i] = moved(before[begin + i], stored);
    }
    out.append(std::as_bytes(std::span(after).first(count)));
  }
  in.end();
  out.commit(inter::Durability::visible);
}

}  // namespace causeway::run
