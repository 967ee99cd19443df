// A blob of which chunks are here: its bytes in a file and, beside it, a map with a checksum per
// chunk, written after the chunk, so that whatever a crash tore is found. docs/wire-format.md has
// the files. Internal to inter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "inter/base/file.h"
#include "inter/frame/blob.h"
#include "inter/frame/chunk_map.h"

namespace causeway::inter {

class PartialBlob {
 public:
  struct Paths {
    std::filesystem::path content, map;
  };

  // With an empty map; the file for the content, whatever it holds, is there already.
  static PartialBlob begin(const BlobId& id, const Paths& paths);
  // What an earlier process left; nothing if no chunk is intact.
  static std::optional<PartialBlob> resume(const BlobId& id, const Paths& paths);

  const ChunkMap& held() const { return held_; }
  std::uint64_t received_bytes() const { return received_bytes_; }
  std::uint64_t prefix_bytes() const;  // here without a gap

  void write(std::uint64_t chunk, std::span<const std::byte> bytes);

  // Its files stay open from one write to the next, until this.
  bool has_open_files() const { return files_ != nullptr; }
  void close_files() { files_.reset(); }

 private:
  struct Files;
  PartialBlob(const BlobId& id, const Paths& paths, ChunkMap held);

  BlobId id_;
  Paths paths_;
  ChunkMap held_;
  std::uint64_t received_bytes_ = 0;
  std::shared_ptr<Files> files_;
};

}  // namespace causeway::inter
