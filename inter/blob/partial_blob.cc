#include "inter/blob/partial_blob.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "inter/base/checksum.h"

namespace causeway::inter {
namespace {

constexpr std::size_t kSumBytes = sizeof(std::uint64_t);

ChunkMap intact_chunks(const BlobId& id, const PartialBlob::Paths& paths) {
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  if (!std::filesystem::exists(paths.map) || !std::filesystem::exists(paths.content) ||
      std::filesystem::file_size(paths.map) != kSumBytes * chunks) {
    return {};
  }
  ChunkMap held(chunks);
  const File map(paths.map, O_RDONLY);
  const File content(paths.content, O_RDONLY);
  std::vector<std::byte> buffer(kChunkBytesMax);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    std::uint64_t sum = 0;
    map.read_at(kSumBytes * chunk, std::as_writable_bytes(std::span(&sum, 1)));
    const auto part = std::span(buffer).first(chunk_bytes(id, chunk));
    if (sum != 0 && content.read_at(chunk_offset(id, chunk), part) == part.size() &&
        checksum(part) == sum) {
      held.insert(chunk);
    }
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
    : id_(id), paths_(paths), held_(std::move(held)), received_bytes_(bytes_of(id_, held_)) {}

PartialBlob PartialBlob::begin(const BlobId& id, const Paths& paths) {
  const std::uint64_t chunks = chunk_count(id.size_bytes);
  File(paths.map, O_WRONLY | O_CREAT | O_TRUNC).resize(kSumBytes * chunks);
  return {id, paths, ChunkMap(chunks)};
}

std::optional<PartialBlob> PartialBlob::resume(const BlobId& id, const Paths& paths) {
  ChunkMap held = intact_chunks(id, paths);
  return held.none() ? std::nullopt : std::optional(PartialBlob(id, paths, std::move(held)));
}

std::uint64_t PartialBlob::prefix_bytes() const {
  return std::min(chunk_offset(id_, held_.run_from(0)), id_.size_bytes);
}

void PartialBlob::write(std::uint64_t chunk, std::span<const std::byte> bytes) {
  if (!files_) {
    files_.reset(new Files{{paths_.content, O_WRONLY}, {paths_.map, O_WRONLY}});
  }
  files_->content.write_at(chunk_offset(id_, chunk), bytes);
  const std::uint64_t sum = checksum(bytes);
  files_->map.write_at(kSumBytes * chunk, std::as_bytes(std::span(&sum, 1)));
  held_.insert(chunk);
  received_bytes_ += bytes.size();
}

}  // namespace causeway::inter
