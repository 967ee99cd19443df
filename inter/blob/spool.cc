#include "inter/blob/spool.h"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/hash_tree.h"
#include "inter/base/limits.h"
#include "inter/blob/spool_files.h"

namespace causeway::inter {
namespace {

constexpr const char* kNamedOtherwise =
    "has its plain SHA-256 as its name, as an earlier version of this program named blobs: go on "
    "with the version that began the run";

std::filesystem::path existing(std::filesystem::path directory) {
  create_private_directories(directory);
  return directory;
}

}  // namespace

std::optional<std::string> damage_of(const std::filesystem::path& file, const BlobId& id) {
  try {
    if (std::filesystem::file_size(file) == id.size_bytes) {
      if (identify(file) == id) return std::nullopt;
      if (hash_file(file, id.size_bytes) == id.hash) return kNamedOtherwise;
    }
  } catch (const std::system_error& error) {  // a disk may refuse to give back what it lost
    if (error.code() == std::errc::io_error) return "cannot be read";
    if (error.code() == std::errc::no_such_file_or_directory) return "is not there any more";
    throw;
  }
  return "does not match its name";
}

Spool::Spool(std::filesystem::path directory, std::uint64_t capacity_bytes)
    : directory_(existing(std::move(directory))),
      capacity_bytes_(capacity_bytes),
      spares_(directory_) {
  std::vector<std::filesystem::path> files;  // adopting renames and removes
  for (const auto& file : std::filesystem::directory_iterator(directory_))
    if (file.is_regular_file()) files.push_back(file.path());
  std::ranges::for_each(files, [this](const auto& file) { adopt(file); });
}

Spool::Draft::Draft(std::filesystem::path path, std::uint64_t size_bytes,
                    std::shared_ptr<std::uint64_t> drafted_bytes)
    : path_(std::move(path)), size_bytes_(size_bytes), drafted_bytes_(std::move(drafted_bytes)) {
  *drafted_bytes_ += size_bytes_;
}

Spool::Draft::~Draft() {
  *drafted_bytes_ -= size_bytes_;
  std::error_code finished;
  std::filesystem::remove(path_, finished);
}

std::unique_ptr<Spool::Draft> Spool::draft(std::uint64_t size_bytes) {
  reserve(size_bytes);
  auto draft =
      std::make_unique<Draft>(draft_path(directory_, ++drafts_), size_bytes, drafted_bytes_);
  with_room([&] { spares_.take(draft->path(), size_bytes); });
  spares_.shrink_to(free_bytes());
  return draft;
}

// A peer may have sent the same, or be at it.
void Spool::finish(const Draft& draft, const BlobId& id) {
  assert(draft.size_bytes() == id.size_bytes);
  if (!has(id)) {
    remove(id);
    publish(draft.path(), id);
  }
}

BlobId Spool::put(std::span<const std::byte> bytes) {
  const BlobId id = identify(bytes);
  if (has(id)) return id;
  const auto draft = this->draft(bytes.size());
  File file(draft->path(), O_WRONLY);
  with_room([&] { file.write_at(0, bytes); });
  file.sync();
  finish(*draft, id);
  return id;
}

bool Spool::has(const BlobId& id) const {
  const Entry* const entry = find(id);
  return entry != nullptr && !entry->partial;
}

const Spool::Entry* Spool::find(const BlobId& id) const {
  const auto entry = entries_.find(id);
  return entry == entries_.end() ? nullptr : &entry->second;
}

std::uint64_t Spool::received_bytes(const BlobId& id) const {
  const Entry* const entry = find(id);
  if (entry == nullptr) return 0;
  return entry->partial ? entry->partial->received_bytes() : id.size_bytes;
}

ChunkMap Spool::held(const BlobId& id) const {
  const Entry* const entry = find(id);
  return entry != nullptr && entry->partial
             ? entry->partial->held()
             : ChunkMap(chunk_count(id.size_bytes), entry != nullptr);
}

bool Spool::store(const BlobId& id, std::uint64_t chunk, std::span<const std::byte> bytes) {
  assert(!has(id));
  PartialBlob& partial = begin(id);
  if (partial.held().has(chunk)) return false;
  with_room([&] { partial.write(chunk, bytes); });
  return true;
}

bool Spool::note(const BlobId& id, std::uint64_t life, std::uint64_t chunk,
                 const Sha256Hash& hash) {
  PartialBlob* const partial = find_partial(id, life);
  if (partial == nullptr) return false;
  if (!partial->has_open_files()) limit_open_files();
  try {
    with_room([&] { partial->note(chunk, hash); });
  } catch (const std::system_error&) {
    partial->forget(chunk);
    throw;
  }
  return partial->all_noted();
}

PartialBlob* Spool::find_partial(const BlobId& id, std::uint64_t life) {
  const auto entry = entries_.find(id);
  const bool is_it = entry != entries_.end() && entry->second.partial && entry->second.life == life;
  return is_it ? &*entry->second.partial : nullptr;
}

bool Spool::all_noted(const BlobId& id) const {
  return entries_.at(id).partial->all_noted();
}

bool Spool::write(const BlobId& id, std::uint64_t first, std::span<const std::byte> bytes) {
  std::uint64_t chunk = first;
  do {
    const auto part = bytes.first(chunk_bytes(id, chunk));
    if (store(id, chunk, part)) note(id, life(id), chunk, tree_hash(part));
    bytes = bytes.subspan(part.size());
    ++chunk;
  } while (!bytes.empty());
  return all_noted(id);
}

PartialBlob& Spool::begin(const BlobId& id) {
  if (!entries_.contains(id)) {
    reserve(id.size_bytes);
    create_partial(id);
    spares_.shrink_to(free_bytes());
  }
  PartialBlob& partial = *entries_[id].partial;
  if (!partial.has_open_files()) limit_open_files();
  return partial;
}

// Peers may begin any number of blobs.
void Spool::limit_open_files() {
  std::vector<PartialBlob*> open;
  for (auto& [id, entry] : entries_)
    if (entry.partial && entry.partial->has_open_files()) open.push_back(&*entry.partial);
  if (open.size() >= kOpenPartialsMax)
    std::ranges::for_each(open, [](PartialBlob* partial) { partial->close_files(); });
}

void Spool::create_partial(const BlobId& id) {
  const PartialBlob::Paths paths = partial_paths(directory_, id);
  try {
    // It must not vouch for what the file holds that becomes the content.
    std::filesystem::remove(paths.map);
    with_room([&] {
      spares_.take(paths.content, id.size_bytes);
      entries_[id] = {++lives_, PartialBlob::begin(id, paths)};
    });
  } catch (const std::system_error&) {
    remove_partial(id);
    throw;
  }
}

void Spool::reserve(std::uint64_t size_bytes) const {
  const std::uint64_t free = free_bytes();
  if (size_bytes > free) {
    throw std::system_error(Errc::spool_full,
                            fmt::format("a blob of {} bytes does not fit: {} of {} are free in {}",
                                        size_bytes, free, capacity_bytes_, directory_.string()));
  }
}

// On a disk that others fill, spares give way.
template <typename Write>
void Spool::with_room(const Write& write) {
  try {
    write();
  } catch (const std::system_error& error) {
    if (!is_out_of_room(error) || !release_spares()) throw;
    write();
  }
}

bool Spool::release_spares() {
  const bool any = spares_.bytes() > 0;
  spares_.clear();
  return any;
}

void Spool::check(const BlobId& id) {
  const auto file = partial(id);
  assert(file && all_noted(id));
  File(file->path, O_WRONLY).sync();
  try {
    finish_checked(id, file->life, tree_root(noted_hashes(file->map, id)));
  } catch (const std::system_error& error) {
    if (error.code() == Errc::hash_mismatch) remove(id);
    throw;
  }
}

void Spool::drop(const BlobId& id, const ChunkMap& chunks) {
  PartialBlob& partial = begin(id);
  for (std::uint64_t chunk = 0; chunk < chunks.size(); ++chunk)
    if (chunks.has(chunk)) partial.drop(chunk);
}

void Spool::finish_checked(const BlobId& id, std::uint64_t life, const Sha256Hash& hash) {
  if (find_partial(id, life) == nullptr) return;
  if (hash != id.hash) throw std::system_error(Errc::hash_mismatch, "blob " + to_string(id));
  publish(partial_paths(directory_, id).content, id);
}

std::optional<Spool::Partial> Spool::partial(const BlobId& id) const {
  const Entry* const entry = find(id);
  if (entry == nullptr || !entry->partial) return std::nullopt;
  const PartialBlob::Paths paths = partial_paths(directory_, id);
  return Partial{paths.content, paths.map, entry->life};
}

std::vector<std::byte> Spool::read(const BlobId& id, std::uint64_t offset, std::size_t size) const {
  assert(offset <= id.size_bytes);
  std::vector<std::byte> bytes(std::min<std::uint64_t>(size, id.size_bytes - offset));
  read(id, offset, bytes);
  return bytes;
}

void Spool::read(const BlobId& id, std::uint64_t offset, std::span<std::byte> bytes) const {
  const auto file = has(id) ? path(id) : archived_blob_path(directory_, id);
  read_exactly(file, File(file, O_RDONLY), offset, bytes);
}

bool Spool::can_send(const BlobId& id) const {
  if (has(id)) return true;
  std::error_code gone;
  const auto size = std::filesystem::file_size(archived_blob_path(directory_, id), gone);
  return !gone && size == id.size_bytes;
}

std::filesystem::path Spool::path(const BlobId& id) const {
  assert(has(id));
  return blob_path(directory_, id);
}

void Spool::remove(const BlobId& id) {
  if (has(id)) spares_.keep(blob_path(directory_, id));
  remove_partial(id);
  entries_.erase(id);
}

std::uint64_t Spool::life(const BlobId& id) const {
  return entries_.at(id).life;
}

void Spool::remove_damaged(const BlobId& id, const std::string& damage) {
  spdlog::error("spool: {} {}; it is thrown away, and fetched again if it is still needed",
                path(id).string(), damage);
  std::filesystem::remove(path(id));  // what the disk spoilt is not written anew
  entries_.erase(id);
}

void Spool::remove_partial(const BlobId& id) {
  const auto [content, map] = partial_paths(directory_, id);
  std::filesystem::remove(content);
  std::filesystem::remove(map);
}

std::vector<BlobId> Spool::complete() const {
  std::vector<BlobId> ids;
  for (const auto& [id, entry] : entries_)
    if (!entry.partial) ids.push_back(id);
  return ids;
}

std::set<BlobId> Spool::begun() const {
  std::set<BlobId> ids;
  for (const auto& [id, entry] : entries_)
    if (entry.partial) ids.insert(id);
  return ids;
}

std::uint64_t Spool::stored_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [id, entry] : entries_) total += received_bytes(id);
  return total;
}

std::uint64_t Spool::free_bytes() const {
  std::uint64_t free_bytes = capacity_bytes_ - *drafted_bytes_;
  for (const auto& [held, entry] : entries_) free_bytes -= std::min(free_bytes, held.size_bytes);
  return free_bytes;
}

void Spool::adopt(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (const auto id = named_blob(name)) {
    adopt_complete(*id);
  } else if (const auto begun = named_partial(name)) {
    adopt_partial(*begun);
  } else if (is_draft(name)) {
    std::filesystem::remove(file);  // of a process that was killed
  }
}

void Spool::adopt_complete(const BlobId& id) {
  const auto file = blob_path(directory_, id);
  const auto damage = damage_of(file, id);
  if (!damage) {
    remove_partial(id);
    entries_[id] = {++lives_, std::nullopt};
    return;
  }
  if (*damage == kNamedOtherwise)
    throw std::system_error(Errc::other_version, file.string() + " " + *damage);
  spdlog::warn("spool: {} {} and was deleted", file.string(), *damage);
  std::filesystem::remove(file);
}

void Spool::adopt_partial(const BlobId& id) {
  if (entries_.contains(id)) return;  // its other file came first
  auto partial = PartialBlob::resume(id, partial_paths(directory_, id));
  if (!partial) {
    remove_partial(id);
    return;
  }
  const bool all = partial->held().all();
  entries_[id] = {++lives_, std::move(partial)};
  if (all) {
    try {
      check(id);  // a crash came between the last byte and the rename
    } catch (const std::system_error& error) {
      spdlog::warn("spool: {}", error.what());
    }
  }
}

// The contents were synced: they must be on disk before the name says that they are complete.
void Spool::publish(const std::filesystem::path& content, const BlobId& id) {
  const std::filesystem::path blob = blob_path(directory_, id);
  std::filesystem::rename(content, blob);
  try {
    std::filesystem::remove(partial_paths(directory_, id).map);
    sync_directory(directory_);
  } catch (const std::system_error&) {
    // It has its name and may lose it, and its parts are gone: it has to come again.
    std::error_code ignored;
    std::filesystem::remove(blob, ignored);
    entries_.erase(id);
    throw;
  }
  entries_[id] = {++lives_, std::nullopt};
}

}  // namespace causeway::inter
