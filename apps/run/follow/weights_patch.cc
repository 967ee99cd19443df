#include "apps/run/follow/weights_patch.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "apps/run/follow/weights_image.h"
#include "apps/run/transfer/tar.h"
#include "diloco/files/error.h"
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

// A file of one Zstandard stream, written by way of libarchive.
class CompressedFile {
 public:
  explicit CompressedFile(const fs::path& file) : out_(file), archive_(archive_write_new()) {
    check(archive_write_set_format_raw(archive_.get()));
    check(archive_write_add_filter_zstd(archive_.get()));
    check(archive_write_set_bytes_in_last_block(archive_.get(), 1));
    check(archive_write_open(archive_.get(), this, nullptr, &CompressedFile::take, nullptr));
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                              &archive_entry_free);
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    check(archive_write_header(archive_.get(), entry.get()));
  }
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

  void append(std::span<const std::byte> bytes) {
    const la_ssize_t written = archive_write_data(archive_.get(), bytes.data(), bytes.size());
    check(written == static_cast<la_ssize_t>(bytes.size()) ? ARCHIVE_OK : ARCHIVE_FATAL);
  }
  void commit() {
    check(archive_write_close(archive_.get()));
    out_.commit(inter::Durability::visible);
  }

 private:
  // No exception may pass through libarchive.
  static la_ssize_t take(::archive* handle, void* self, const void* bytes, std::size_t size) {
    auto* const file = static_cast<CompressedFile*>(self);
    if (file->failure_) return -1;
    try {
      file->out_.append({static_cast<const std::byte*>(bytes), size});
      return static_cast<la_ssize_t>(size);
    } catch (...) {
      file->failure_ = std::current_exception();
      archive_set_error(handle, EIO, "the patch cannot be written");
      return -1;
    }
  }
  void check(int result) {
    if (failure_) std::rethrow_exception(failure_);
    if (result < ARCHIVE_WARN)
      throw std::system_error(std::make_error_code(std::errc::io_error), error_of(archive_.get()));
  }

  inter::AtomicFile out_;
  std::exception_ptr failure_;
  ArchivePtr archive_;
};

// The same to read: a stranger's.
class ExpandedFile {
 public:
  explicit ExpandedFile(const fs::path& file) : file_(file), archive_(archive_read_new()) {
    archive_read_support_filter_zstd(archive_.get());
    archive_read_support_format_raw(archive_.get());
    archive_entry* entry = nullptr;
    if (archive_read_open_filename(archive_.get(), file.c_str(), kTransferBytes) != ARCHIVE_OK ||
        archive_read_next_header(archive_.get(), &entry) != ARCHIVE_OK)
      refuse_patch(file_, error_of(archive_.get()));
  }

  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const la_ssize_t got = archive_read_data(archive_.get(), bytes.data(), bytes.size());
      if (got < 0) refuse_patch(file_, error_of(archive_.get()));
      if (got == 0) refuse_patch(file_, "it is too short");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
  }
  void end() {
    std::byte more;
    if (archive_read_data(archive_.get(), &more, 1) != 0) refuse_patch(file_, "it is too long");
  }

 private:
  fs::path file_;
  ArchivePtr archive_;
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
