#include "apps/run/transfer/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <utility>

#include "apps/run/region/run_error.h"

namespace causeway::run {

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

}  // namespace causeway::run
