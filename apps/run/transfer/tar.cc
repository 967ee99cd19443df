#include "apps/run/transfer/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "apps/run/region/region_files.h"

namespace causeway::run {

void ArchiveDeleter::operator()(::archive* handle) const {
  archive_free(handle);
}

std::string error_of(::archive* handle) {
  const char* text = archive_error_string(handle);
  return text == nullptr ? "unknown error" : text;
}

TarReader::TarReader(std::filesystem::path path)
    : path_(std::move(path)), archive_(archive_read_new()) {
  archive_read_support_format_tar(archive_.get());
  const char* name = path_ == "-" ? nullptr : path_.c_str();
  if (archive_read_open_filename(archive_.get(), name, kTransferBytes) != ARCHIVE_OK) refuse();
}

void TarReader::refuse() const {
  throw RunError(path_.string() + ": " + error_of(archive_.get()));
}

std::optional<TarReader::File> TarReader::next() {
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(archive_.get(), &entry);
  if (result == ARCHIVE_EOF) return std::nullopt;
  if (result != ARCHIVE_OK) refuse();
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr || archive_entry_filetype(entry) != AE_IFREG ||
      archive_entry_hardlink(entry) != nullptr)
    throw RunError(path_.string() +
                   ": the archive has an entry that is no plain file, which no export makes");
  return File{.name = name, .size = static_cast<std::uint64_t>(archive_entry_size(entry))};
}

std::size_t TarReader::read(std::span<std::byte> bytes) {
  const la_ssize_t got = archive_read_data(archive_.get(), bytes.data(), bytes.size());
  if (got < 0) refuse();
  return static_cast<std::size_t>(got);
}

namespace {

constexpr unsigned kMode = 0644;

struct EntryDeleter {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

}  // namespace

TarWriter::TarWriter(Sink sink) : sink_(std::move(sink)), archive_(archive_write_new()) {
  check(archive_write_set_format_pax_restricted(archive_.get()));
  check(archive_write_set_bytes_per_block(archive_.get(), kTransferBytes));
  check(archive_write_set_bytes_in_last_block(archive_.get(), 1));
  check(archive_write_open(archive_.get(), this, nullptr, &TarWriter::take, nullptr));
}

// No exception may pass through libarchive.
ssize_t TarWriter::take(::archive* handle, void* self, const void* bytes, std::size_t size) {
  auto* writer = static_cast<TarWriter*>(self);
  if (writer->failure_) return -1;
  try {
    writer->sink_({static_cast<const std::byte*>(bytes), size});
    return static_cast<ssize_t>(size);
  } catch (...) {
    writer->failure_ = std::current_exception();
    archive_set_error(handle, EIO, "the archive cannot be written");
    return -1;
  }
}

void TarWriter::check(int result) {
  if (failure_) std::rethrow_exception(failure_);
  if (result != ARCHIVE_OK) throw RunError("writing the archive: " + error_of(archive_.get()));
}

// No time, owner or rights of this host: the same content gives the same archive.
void TarWriter::begin(const std::string& name, std::uint64_t size) {
  const std::unique_ptr<archive_entry, EntryDeleter> entry(archive_entry_new());
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), kMode);
  archive_entry_set_mtime(entry.get(), 0, 0);
  check(archive_write_header(archive_.get(), entry.get()));
}

void TarWriter::write(std::span<const std::byte> bytes) {
  const la_ssize_t written = archive_write_data(archive_.get(), bytes.data(), bytes.size());
  check(written == static_cast<la_ssize_t>(bytes.size()) ? ARCHIVE_OK : ARCHIVE_FATAL);
}

void TarWriter::finish() {
  check(archive_write_close(archive_.get()));
}

}  // namespace causeway::run
