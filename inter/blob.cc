#include "inter/blob.h"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include <spdlog/spdlog.h>

#include "inter/error.h"
#include "inter/file.h"
#include "inter/sha256.h"

namespace causeway::inter {
namespace {

constexpr std::string_view kPartialSuffix = ".part";
constexpr std::size_t kHashReadBytes = 1U << 20;

std::string hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string file_name(const BlobId& id) {
  return hex(id.hash) + "-" + std::to_string(id.size_bytes);
}

// The blob that file_name() would name so; nothing for any other name.
std::optional<BlobId> parse_file_name(std::string_view name) {
  BlobId id;
  const std::size_t hex_digits = 2 * id.hash.size();
  if (name.size() < hex_digits + 2) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < id.hash.size(); ++i) {
    std::from_chars(name.data() + 2 * i, name.data() + 2 * i + 2, id.hash[i], 16);
  }
  std::from_chars(name.data() + hex_digits + 1, name.data() + name.size(), id.size_bytes);
  return file_name(id) == name ? std::optional(id) : std::nullopt;
}

BlobId identify(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return {hash.finish(), bytes.size()};
}

}  // namespace

std::string to_string(const BlobId& id) {
  char size[32];
  const auto bytes = static_cast<double>(id.size_bytes);
  if (id.size_bytes < 1000) {
    std::snprintf(size, sizeof size, "%u bytes", static_cast<unsigned>(id.size_bytes));
  } else if (bytes < 1e6) {
    std::snprintf(size, sizeof size, "%.1f kB", bytes / 1e3);
  } else {
    std::snprintf(size, sizeof size, "%.1f MB", bytes / 1e6);
  }
  return hex(std::span(id.hash).first(4)) + " (" + size + ")";
}

Spool::Spool(std::filesystem::path directory, std::uint64_t capacity_bytes)
    : directory_(std::move(directory)), capacity_bytes_(capacity_bytes) {
  std::filesystem::create_directories(directory_);
  for (const auto& file : std::filesystem::directory_iterator(directory_)) {
    if (file.is_regular_file()) {
      adopt(file.path());
    }
  }
}

BlobId Spool::put(std::span<const std::byte> bytes) {
  const BlobId id = identify(bytes);
  if (has(id)) {
    return id;
  }
  reserve(id);
  File(partial_path(id), O_WRONLY | O_CREAT | O_TRUNC).write_at(0, bytes);
  finish(id);
  return id;
}

bool Spool::has(const BlobId& id) const {
  const auto entry = entries_.find(id);
  return entry != entries_.end() && entry->second.complete;
}

std::uint64_t Spool::received_bytes(const BlobId& id) const {
  const auto entry = entries_.find(id);
  return entry == entries_.end() ? 0 : entry->second.received_bytes;
}

bool Spool::append(const BlobId& id, std::uint64_t offset, std::span<const std::byte> bytes) {
  assert(!has(id));
  assert(offset == received_bytes(id));
  assert(bytes.size() <= id.size_bytes - offset);
  reserve(id);
  File(partial_path(id), O_WRONLY | O_CREAT | (offset == 0 ? O_TRUNC : 0)).write_at(offset, bytes);
  Entry& entry = entries_[id];
  if (!entry.hash) {
    entry.hash = hash_file(partial_path(id), offset);
  }
  entry.hash->update(bytes);
  entry.received_bytes += bytes.size();
  if (entry.received_bytes < id.size_bytes) {
    return false;
  }
  if (entry.hash->finish() != id.hash) {
    remove(id);
    throw std::system_error(Errc::hash_mismatch, "blob " + to_string(id));
  }
  finish(id);
  return true;
}

std::vector<std::byte> Spool::read(const BlobId& id, std::uint64_t offset, std::size_t size) const {
  const File file(path(id), O_RDONLY);
  assert(offset <= id.size_bytes);
  std::vector<std::byte> bytes(std::min<std::uint64_t>(size, id.size_bytes - offset));
  if (file.read_at(offset, bytes) != bytes.size()) {
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            path(id).string() + " is shorter than it was");
  }
  return bytes;
}

std::filesystem::path Spool::path(const BlobId& id) const {
  assert(has(id));
  return complete_path(id);
}

void Spool::remove(const BlobId& id) {
  std::filesystem::remove(complete_path(id));
  std::filesystem::remove(partial_path(id));
  entries_.erase(id);
}

std::vector<BlobId> Spool::complete() const {
  std::vector<BlobId> ids;
  for (const auto& [id, entry] : entries_) {
    if (entry.complete) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::uint64_t Spool::stored_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [id, entry] : entries_) {
    total += entry.received_bytes;
  }
  return total;
}

std::filesystem::path Spool::complete_path(const BlobId& id) const {
  return directory_ / file_name(id);
}

std::filesystem::path Spool::partial_path(const BlobId& id) const {
  return directory_ / (file_name(id) + std::string(kPartialSuffix));
}

void Spool::adopt(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (const auto id = parse_file_name(name)) {
    adopt_complete(*id);
  } else if (name.ends_with(kPartialSuffix)) {
    if (const auto partial = parse_file_name(
            std::string_view(name).substr(0, name.size() - kPartialSuffix.size()))) {
      adopt_partial(*partial);
    }
  }
}

void Spool::adopt_complete(const BlobId& id) {
  const auto file = complete_path(id);
  if (std::filesystem::file_size(file) == id.size_bytes &&
      hash_file(file, id.size_bytes)->finish() == id.hash) {
    std::filesystem::remove(partial_path(id));
    entries_[id] = {id.size_bytes, true, nullptr};
    return;
  }
  spdlog::warn("spool: {} does not match its name and was deleted", file.string());
  std::filesystem::remove(file);
}

void Spool::adopt_partial(const BlobId& id) {
  const auto file = partial_path(id);
  const std::uint64_t size = std::filesystem::exists(file) ? std::filesystem::file_size(file) : 0;
  if (has(id) || size > id.size_bytes) {
    std::filesystem::remove(file);
  } else if (size < id.size_bytes) {
    entries_[id] = {size, false, nullptr};
  } else if (hash_file(file, size)->finish() == id.hash) {
    finish(id);  // a crash came between the last byte and the rename
  } else {
    std::filesystem::remove(file);
  }
}

// Throws if a blob that is not here yet does not fit beside the full sizes of all that are or have
// begun.
void Spool::reserve(const BlobId& id) const {
  if (entries_.contains(id)) {
    return;
  }
  std::uint64_t free_bytes = capacity_bytes_;
  for (const auto& [held, entry] : entries_) {
    free_bytes -= std::min(free_bytes, held.size_bytes);
  }
  if (id.size_bytes > free_bytes) {
    throw std::system_error(Errc::spool_full, "blob " + to_string(id) +
                                                  " does not fit: " + std::to_string(free_bytes) +
                                                  " of " + std::to_string(capacity_bytes_) +
                                                  " bytes are free in " + directory_.string());
  }
}

// The contents must be on disk before the name says that they are complete.
void Spool::finish(const BlobId& id) {
  File(partial_path(id), O_WRONLY).sync();
  std::filesystem::rename(partial_path(id), complete_path(id));
  sync_directory(directory_);
  entries_[id] = {id.size_bytes, true, nullptr};
}

std::shared_ptr<Sha256> Spool::hash_file(const std::filesystem::path& path,
                                         std::uint64_t size) const {
  auto hash = std::make_shared<Sha256>();
  if (size == 0) {
    return hash;
  }
  const File file(path, O_RDONLY);
  std::vector<std::byte> buffer(std::min<std::uint64_t>(size, kHashReadBytes));
  for (std::uint64_t offset = 0; offset < size;) {
    const std::size_t wanted = std::min<std::uint64_t>(size - offset, buffer.size());
    const std::size_t got = file.read_at(offset, std::span(buffer).first(wanted));
    if (got == 0) {
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              path.string() + " is shorter than it was");
    }
    hash->update(std::span(buffer).first(got));
    offset += got;
  }
  return hash;
}

}  // namespace causeway::inter
