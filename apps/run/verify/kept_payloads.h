// The payloads that regions of a run still have, in spool/ and archive/ of their directories.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diloco/files/sealed_bytes.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::run {

// A file that is not the blob of its name, as a sentence.
std::string describe_damage(const std::filesystem::path& file, const inter::BlobId& blob);

class KeptPayloads {
 public:
  explicit KeptPayloads(std::vector<std::filesystem::path> region_directories)
      : regions_(std::move(region_directories)) {}

  // Every file of that name, read: how many have the content, which do not, and why others could
  // not be read.
  struct Copies {
    std::size_t good = 0;
    std::vector<std::filesystem::path> damaged;
    std::vector<std::string> unread;
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
