#include "inter/blob/spool_files.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inter/base/file.h"
#include "inter/base/hash_tree.h"
#include "inter/base/limits.h"
#include "inter/base/text.h"

namespace causeway::inter {
namespace {

constexpr std::size_t kHashBytes = sizeof(Sha256Hash);

ChunkMap intact_chunks(const BlobId& id, const PartialBlob::Paths& paths) {
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  if (!std::filesystem::exists(paths.map) || !std::filesystem::exists(paths.content) ||
      std::filesystem::file_size(paths.map) != kHashBytes * chunks)
    return {};
  ChunkMap held(chunks);
  const File map(paths.map, O_RDONLY);
  const File content(paths.content, O_RDONLY);
  std::vector<std::byte> buffer(kChunkBytesMax);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    Sha256Hash hash{};
    map.read_at(kHashBytes * chunk, std::as_writable_bytes(std::span(hash)));
    const auto part = std::span(buffer).first(chunk_bytes(id, chunk));
    if (hash != Sha256Hash{} && content.read_at(chunk_offset(id, chunk), part) == part.size() &&
        tree_hash(part) == hash)
      held.insert(chunk);
  }
  return held;
}

std::uint64_t bytes_of(const BlobId& id, const ChunkMap& held) {
  const std::uint64_t last = held.size() - 1;
  const std::uint64_t short_bytes =
      held.has(last) ? chunk_size(id.size_bytes) - chunk_bytes(id, last) : 0;
  return chunk_offset(id, held.count()) - short_bytes;
}

}  // namespace

struct PartialBlob::Files {
  File content, map;
};

PartialBlob::PartialBlob(const BlobId& id, const Paths& paths, ChunkMap held)
    : id_(id),
      paths_(paths),
      held_(std::move(held)),
      received_bytes_(bytes_of(id_, held_)),
      noted_(held_.count()) {}

PartialBlob PartialBlob::begin(const BlobId& id, const Paths& paths) {
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  File(paths.map, O_WRONLY | O_CREAT | O_TRUNC).resize(kHashBytes * chunks);
  return {id, paths, ChunkMap(chunks)};
}

std::optional<PartialBlob> PartialBlob::resume(const BlobId& id, const Paths& paths) {
  ChunkMap held = intact_chunks(id, paths);
  return held.none() ? std::nullopt : std::optional(PartialBlob(id, paths, std::move(held)));
}

void PartialBlob::write(std::uint64_t chunk, std::span<const std::byte> bytes) {
  files().content.write_at(chunk_offset(id_, chunk), bytes);
  held_.insert(chunk);
  received_bytes_ += bytes.size();
}

void PartialBlob::note(std::uint64_t chunk, const Sha256Hash& hash) {
  files().map.write_at(kHashBytes * chunk, std::as_bytes(std::span(hash)));
  ++noted_;
}

void PartialBlob::forget(std::uint64_t chunk) {
  held_.erase(chunk);
  received_bytes_ -= chunk_bytes(id_, chunk);
}

void PartialBlob::drop(std::uint64_t chunk) {
  const Sha256Hash nothing{};
  files().map.write_at(kHashBytes * chunk, std::as_bytes(std::span(nothing)));
  --noted_;
  forget(chunk);
}

PartialBlob::Files& PartialBlob::files() {
  if (!files_) files_.reset(new Files{{paths_.content, O_WRONLY}, {paths_.map, O_WRONLY}});
  return *files_;
}

std::vector<Sha256Hash> noted_hashes(const std::filesystem::path& map, const BlobId& id) {
  std::vector<Sha256Hash> chunks(chunk_count(id.size_bytes));
  read_exactly(map, File(map, O_RDONLY), 0, std::as_writable_bytes(std::span(chunks)));
  return chunks;
}

namespace {

constexpr std::string_view kPartialSuffix = ".part";
constexpr std::string_view kMapSuffix = ".hashes";
constexpr std::string_view kDraftPrefix = "draft-";

std::string file_name(const BlobId& id) {
  return fmt::format("{}-{}", hex(id.hash), id.size_bytes);
}

std::optional<BlobId> named_before(std::string_view suffix, std::string_view name) {
  return name.ends_with(suffix) ? named_blob(name.substr(0, name.size() - suffix.size()))
                                : std::nullopt;
}

}  // namespace

std::filesystem::path blob_path(const std::filesystem::path& spool_directory, const BlobId& id) {
  return spool_directory / file_name(id);
}

std::filesystem::path archived_blob_path(const std::filesystem::path& spool_directory,
                                         const BlobId& id) {
  return spool_directory.parent_path() / "archive" / file_name(id);
}

PartialBlob::Paths partial_paths(const std::filesystem::path& spool_directory, const BlobId& id) {
  const std::string name = file_name(id);
  return {spool_directory / (name + std::string(kPartialSuffix)),
          spool_directory / (name + std::string(kMapSuffix))};
}

std::filesystem::path draft_path(const std::filesystem::path& spool_directory,
                                 std::uint64_t number) {
  return spool_directory / fmt::format("{}{}", kDraftPrefix, number);
}

bool is_draft(std::string_view file_name) {
  return file_name.starts_with(kDraftPrefix);
}

std::optional<BlobId> named_blob(std::string_view name) {
  BlobId id;
  const std::size_t hex_digits = 2 * id.hash.size();
  if (name.size() < hex_digits + 2) return std::nullopt;
  for (std::size_t i = 0; i < id.hash.size(); ++i)
    std::from_chars(name.data() + 2 * i, name.data() + 2 * i + 2, id.hash[i], 16);
  std::from_chars(name.data() + hex_digits + 1, name.data() + name.size(), id.size_bytes);
  return file_name(id) == name ? std::optional(id) : std::nullopt;
}

std::optional<BlobId> named_partial(std::string_view name) {
  const auto id = named_before(kPartialSuffix, name);
  return id ? id : named_before(kMapSuffix, name);
}

void read_exactly(const std::filesystem::path& path, const File& file, std::uint64_t offset,
                  std::span<std::byte> bytes) {
  if (file.read_at(offset, bytes) != bytes.size()) {
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            path.string() + " is shorter than it was");
  }
}

BlobId identify(std::span<const std::byte> content) {
  return {tree_hash(content), content.size()};
}

BlobId identify(const std::filesystem::path& path) {
  const std::uint64_t size = std::filesystem::file_size(path);
  const File file(path, O_RDONLY);
  return {tree_hash(size,
                    [&](std::uint64_t offset, std::size_t bytes) {
                      static thread_local const PageBuffer buffer(kHashPartBytes);
                      const auto part = buffer.bytes().first(bytes);
                      read_exactly(path, file, offset, part);
                      return tree_hash(part);
                    }),
          size};
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

namespace {

constexpr std::uint64_t kWorthwhileBytes = 64U << 10;
// A spare that nobody took while so many others came was of a size that does not come again.
constexpr std::uint64_t kPassedOverMax = 32;
constexpr std::string_view kPrefix = "spare-";

// Much larger files would be cut for nothing, much smaller ones are hardly better than none.
bool is_about(std::uint64_t size_bytes, std::uint64_t wanted_bytes) {
  return size_bytes / 2 <= wanted_bytes && wanted_bytes / 2 <= size_bytes;
}

bool is_ours_alone(const std::filesystem::path& file) {
  try {
    return File(file, O_RDONLY).is_nobody_elses();
  } catch (const std::system_error&) {
    return false;  // too many files are open, say: deleting needs none
  }
}

}  // namespace

SpareFiles::SpareFiles(std::filesystem::path directory) : directory_(std::move(directory)) {
  for (const auto& file : std::filesystem::directory_iterator(directory_))
    if (file.path().filename().string().starts_with(kPrefix)) std::filesystem::remove(file.path());
}

void SpareFiles::keep(const std::filesystem::path& file) {
  std::error_code missing;
  const std::uint64_t size_bytes = std::filesystem::file_size(file, missing);
  if (missing || size_bytes < kWorthwhileBytes) {
    std::filesystem::remove(file);
    return;
  }
  const std::uint64_t number = kept_++;
  const auto path = directory_ / fmt::format("{}{}", kPrefix, number);
  std::filesystem::rename(file, path);  // nobody finds it by its old name any more
  if (!is_ours_alone(path)) {
    std::filesystem::remove(path);
    return;
  }
  spares_.push_back({path, size_bytes, number});
  while (spares_.front().number + kPassedOverMax < number) drop_oldest();
}

void SpareFiles::take(const std::filesystem::path& path, std::uint64_t size_bytes) {
  const auto spare = std::find_if(spares_.rbegin(), spares_.rend(), [&](const Spare& candidate) {
    return is_about(candidate.size_bytes, size_bytes);
  });
  if (spare != spares_.rend()) {
    std::filesystem::rename(spare->path, path);
    spares_.erase(std::next(spare).base());
  }
  File(path, O_WRONLY | O_CREAT).resize(size_bytes);
}

std::uint64_t SpareFiles::bytes() const {
  std::uint64_t total = 0;
  for (const Spare& spare : spares_) total += spare.size_bytes;
  return total;
}

void SpareFiles::shrink_to(std::uint64_t bytes_max) {
  while (bytes() > bytes_max) drop_oldest();
}

void SpareFiles::drop_oldest() {
  std::error_code ignored;
  std::filesystem::remove(spares_.front().path, ignored);
  spares_.pop_front();
}

}  // namespace causeway::inter
