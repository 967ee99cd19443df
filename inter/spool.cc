#include "inter/spool.h"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <string_view>
#include <system_error>

#include <spdlog/spdlog.h>

#include "inter/checksum.h"
#include "inter/error.h"
#include "inter/file.h"
#include "inter/hex.h"
#include "inter/limits.h"
#include "inter/page_buffer.h"
#include "inter/sha256.h"
#include "inter/spool_files.h"

namespace causeway::inter {
namespace {

constexpr std::string_view kPartialSuffix = ".part";
constexpr std::string_view kMapSuffix = ".map";

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

std::optional<BlobId> parse_file_name(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) {
    return std::nullopt;
  }
  return parse_file_name(name.substr(0, name.size() - suffix.size()));
}

BlobId identify(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return {hash.finish(), bytes.size()};
}

void read_exactly(const std::filesystem::path& path, const File& file, std::uint64_t offset,
                  std::span<std::byte> bytes) {
  if (file.read_at(offset, bytes) != bytes.size()) {
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            path.string() + " is shorter than it was");
  }
}

Sha256Hash hash_file(const std::filesystem::path& path, std::uint64_t size) {
  Sha256 hash;
  const File file(path, O_RDONLY);
  const PageBuffer buffer(kHashReadBytes);
  for (std::uint64_t offset = 0; offset < size; offset += kHashReadBytes) {
    const auto part = buffer.bytes().first(std::min<std::uint64_t>(size - offset, kHashReadBytes));
    read_exactly(path, file, offset, part);
    hash.update(part);
  }
  return hash.finish();
}

}  // namespace

std::filesystem::path blob_path(const std::filesystem::path& spool_directory, const BlobId& id) {
  return spool_directory / file_name(id);
}

Spool::Spool(std::filesystem::path directory, std::uint64_t capacity_bytes)
    : directory_(std::move(directory)), capacity_bytes_(capacity_bytes) {
  std::filesystem::create_directories(directory_);
  std::vector<std::filesystem::path> files;  // adopting renames and removes
  for (const auto& file : std::filesystem::directory_iterator(directory_)) {
    if (file.is_regular_file()) {
      files.push_back(file.path());
    }
  }
  std::for_each(files.begin(), files.end(), [this](const auto& file) { adopt(file); });
}

BlobId Spool::put(std::span<const std::byte> bytes) {
  const BlobId id = identify(bytes);
  if (has(id)) {
    return id;
  }
  reserve(id);
  File file(partial_path(id), O_WRONLY | O_CREAT | O_TRUNC);
  file.write_at(0, bytes);
  file.sync();
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

ChunkMap Spool::held(const BlobId& id) const {
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.complete) {
    return ChunkMap(chunk_count(id.size_bytes), entry != entries_.end());
  }
  return entry->second.held;
}

bool Spool::write(const BlobId& id, std::uint64_t first, std::span<const std::byte> bytes) {
  assert(!has(id));
  Entry& entry = begin(id);
  std::uint64_t chunk = first;
  do {
    const auto part = bytes.first(chunk_bytes(id, chunk));
    if (!entry.held.has(chunk)) {
      store(id, entry, chunk, part);
    }
    bytes = bytes.subspan(part.size());
    ++chunk;
  } while (!bytes.empty());
  return entry.held.all();
}

Spool::Entry& Spool::begin(const BlobId& id) {
  if (const auto known = entries_.find(id); known != entries_.end()) {
    return known->second;
  }
  reserve(id);
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  // An old file of the same name must not lend its bytes to an empty map, or the other way round.
  File(map_path(id), O_WRONLY | O_CREAT | O_TRUNC).resize(8 * chunks);
  File(partial_path(id), O_WRONLY | O_CREAT | O_TRUNC);
  return entries_[id] = {false, ++lives_, ChunkMap(chunks), 0};
}

void Spool::store(const BlobId& id, Entry& entry, std::uint64_t chunk,
                  std::span<const std::byte> bytes) {
  File(partial_path(id), O_WRONLY).write_at(chunk_offset(id, chunk), bytes);
  const std::uint64_t sum = checksum(bytes);
  File(map_path(id), O_WRONLY).write_at(8 * chunk, std::as_bytes(std::span(&sum, 1)));
  entry.held.insert(chunk);
  entry.received_bytes += bytes.size();
}

void Spool::check(const BlobId& id) {
  const auto file = partial(id);
  assert(file && entries_.at(id).held.all());
  File(file->path, O_WRONLY).sync();
  finish_checked(id, file->life, hash_file(file->path, id.size_bytes));
}

void Spool::finish_checked(const BlobId& id, std::uint64_t life,
                           const std::array<std::uint8_t, 32>& hash) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.complete || entry->second.life != life) {
    return;
  }
  if (hash != id.hash) {
    remove(id);
    throw std::system_error(Errc::hash_mismatch, "blob " + to_string(id));
  }
  finish(id);
}

std::optional<Spool::Partial> Spool::partial(const BlobId& id) const {
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.complete) {
    return std::nullopt;
  }
  const std::uint64_t prefix_chunks = entry->second.held.run_from(0);
  return Partial{partial_path(id), entry->second.life,
                 std::min(chunk_offset(id, prefix_chunks), id.size_bytes)};
}

std::vector<std::byte> Spool::read(const BlobId& id, std::uint64_t offset, std::size_t size) const {
  assert(offset <= id.size_bytes);
  std::vector<std::byte> bytes(std::min<std::uint64_t>(size, id.size_bytes - offset));
  read(id, offset, bytes);
  return bytes;
}

void Spool::read(const BlobId& id, std::uint64_t offset, std::span<std::byte> bytes) const {
  const auto file = path(id);
  read_exactly(file, File(file, O_RDONLY), offset, bytes);
}

std::filesystem::path Spool::path(const BlobId& id) const {
  assert(has(id));
  return complete_path(id);
}

void Spool::remove(const BlobId& id) {
  std::filesystem::remove(complete_path(id));
  std::filesystem::remove(partial_path(id));
  std::filesystem::remove(map_path(id));
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

std::uint64_t Spool::free_bytes() const {
  std::uint64_t free_bytes = capacity_bytes_;
  for (const auto& [held, entry] : entries_) {
    free_bytes -= std::min(free_bytes, held.size_bytes);
  }
  return free_bytes;
}

std::filesystem::path Spool::complete_path(const BlobId& id) const {
  return blob_path(directory_, id);
}

std::filesystem::path Spool::partial_path(const BlobId& id) const {
  return directory_ / (file_name(id) + std::string(kPartialSuffix));
}

std::filesystem::path Spool::map_path(const BlobId& id) const {
  return directory_ / (file_name(id) + std::string(kMapSuffix));
}

void Spool::adopt(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (const auto id = parse_file_name(name)) {
    adopt_complete(*id);
  } else if (const auto begun = parse_file_name(name, kPartialSuffix)) {
    adopt_partial(*begun);
  } else if (const auto mapped = parse_file_name(name, kMapSuffix)) {
    adopt_partial(*mapped);
  }
}

void Spool::adopt_complete(const BlobId& id) {
  const auto file = complete_path(id);
  if (std::filesystem::file_size(file) == id.size_bytes &&
      hash_file(file, id.size_bytes) == id.hash) {
    std::filesystem::remove(partial_path(id));
    std::filesystem::remove(map_path(id));
    entries_[id] = {true, ++lives_, {}, id.size_bytes};
    return;
  }
  spdlog::warn("spool: {} does not match its name and was deleted", file.string());
  std::filesystem::remove(file);
}

void Spool::adopt_partial(const BlobId& id) {
  if (entries_.contains(id)) {
    return;  // its other file came first
  }
  ChunkMap held = intact_chunks(id);
  if (held.none()) {
    std::filesystem::remove(partial_path(id));
    std::filesystem::remove(map_path(id));
    return;
  }
  const std::uint64_t last = held.size() - 1;
  const std::uint64_t short_bytes =
      held.has(last) ? chunk_size(id.size_bytes) - chunk_bytes(id, last) : 0;
  const std::uint64_t received_bytes = chunk_offset(id, held.count()) - short_bytes;
  const bool all = held.all();
  entries_[id] = {false, ++lives_, std::move(held), received_bytes};
  if (all) {
    try {
      check(id);  // a crash came between the last byte and the rename
    } catch (const std::system_error& error) {
      spdlog::warn("spool: {}", error.what());
    }
  }
}

ChunkMap Spool::intact_chunks(const BlobId& id) const {
  const auto map_file = map_path(id);
  const auto data_file = partial_path(id);
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  if (!std::filesystem::exists(map_file) || !std::filesystem::exists(data_file) ||
      std::filesystem::file_size(map_file) != 8 * chunks) {
    return {};
  }
  ChunkMap held(chunks);
  const File map(map_file, O_RDONLY);
  const File data(data_file, O_RDONLY);
  std::vector<std::byte> buffer(kChunkBytesMax);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    std::uint64_t sum = 0;
    map.read_at(8 * chunk, std::as_writable_bytes(std::span(&sum, 1)));
    const auto part = std::span(buffer).first(chunk_bytes(id, chunk));
    if (sum != 0 && data.read_at(chunk_offset(id, chunk), part) == part.size() &&
        checksum(part) == sum) {
      held.insert(chunk);
    }
  }
  return held;
}

// Throws if a blob that is not here yet does not fit.
void Spool::reserve(const BlobId& id) const {
  if (entries_.contains(id)) {
    return;
  }
  if (id.size_bytes > free_bytes()) {
    throw std::system_error(Errc::spool_full, "blob " + to_string(id) +
                                                  " does not fit: " + std::to_string(free_bytes()) +
                                                  " of " + std::to_string(capacity_bytes_) +
                                                  " bytes are free in " + directory_.string());
  }
}

// The contents were synced: they must be on disk before the name says that they are complete.
void Spool::finish(const BlobId& id) {
  std::filesystem::rename(partial_path(id), complete_path(id));
  std::filesystem::remove(map_path(id));
  sync_directory(directory_);
  entries_[id] = {true, ++lives_, {}, id.size_bytes};
}

}  // namespace causeway::inter
