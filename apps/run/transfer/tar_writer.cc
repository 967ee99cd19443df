#include "apps/run/transfer/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "apps/run/region/run_error.h"

namespace causeway::run {
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
