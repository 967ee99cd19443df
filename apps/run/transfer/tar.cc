#include "apps/run/transfer/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/transfer/archive_error.h"

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
  const bool is_named = path_ != "-";
  if (is_named && std::filesystem::is_directory(path_))
    throw ConfigError(path_.string() +
                      " is a directory: name the file that `causeway export` wrote");
  const char* name = is_named ? path_.c_str() : nullptr;
  if (archive_read_open_filename(archive_.get(), name, kTransferBytes) == ARCHIVE_OK) return;
  const int error = archive_errno(archive_.get());
  if (error == EILSEQ || error < 0) refuse();  // it was opened, and begins as no archive does
  throw ConfigError(path_.string() + " cannot be opened (" +
                    std::generic_category().message(error) +
                    "): name the file that `causeway export` wrote");
}

// Of libarchive's numbers, those of the content are EILSEQ and -1; the others are the system's.
void TarReader::refuse() const {
  const int error = archive_errno(archive_.get());
  if (error == EIO || error == ENOMEM || error == EISDIR)
    throw std::system_error(error, std::generic_category(), "cannot read " + path_.string());
  if (!begun_)
    throw ArchiveError(
        "this is no archive of `causeway export`: it may be another file, empty, compressed, or "
        "cut short at its beginning. Name the archive, unpacked if somebody compressed it, or "
        "take another copy");
  throw ArchiveError("the archive is damaged or incomplete (" + error_of(archive_.get()) +
                     "): take another copy, or export it again");
}

std::optional<TarReader::File> TarReader::next() {
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(archive_.get(), &entry);
  if (result == ARCHIVE_EOF) return std::nullopt;
  if (result != ARCHIVE_OK) refuse();
  begun_ = true;
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr || archive_entry_filetype(entry) != AE_IFREG ||
      archive_entry_hardlink(entry) != nullptr)
    throw ArchiveError(
        "the archive has an entry that is no plain file, which no export makes: do not trust it");
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
