// The payloads that regions of a run still have, in spool/ and archive/ of their directories.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "diloco/files/sealed_bytes.h"
#include "inter/frame/blob.h"

namespace causeway::run {

class KeptPayloads {
 public:
  explicit KeptPayloads(std::vector<std::filesystem::path> region_directories)
      : regions_(std::move(region_directories)) {}

  // Every file of that name, read: how many have the content, and which do not.
  struct Copies {
    std::size_t good = 0;
    std::vector<std::filesystem::path> damaged;
  };
  Copies copies(const inter::BlobId& payload) const;
  // The first of them whose content has the hash. None: there is no file. Throws
  // diloco::Errc::lineage naming the file if there are only damaged ones.
  std::optional<diloco::MappedBytes> open(const inter::BlobId& payload) const;

 private:
  std::vector<std::filesystem::path> files(const inter::BlobId& payload) const;

  std::vector<std::filesystem::path> regions_;
};

}  // namespace causeway::run
