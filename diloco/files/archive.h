// archive/ in a region's directory, which is there with ledger.keep = "all": what a replay of the
// run needs beside the ledger and the spool (docs/audit.md).
//
//   config.toml          the resolved configuration
//   HASH-SIZE            payloads that records list, named as in the spool, once they left that
//   state-V.safetensors  anchor and outer momentum of version V, as in checkpoints/snapshot: what
//                        the region began with, and every state that it took from others
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace causeway::diloco {

std::filesystem::path archive_directory(const std::filesystem::path& region_directory);
std::filesystem::path archived_config(const std::filesystem::path& region_directory);
std::filesystem::path archived_state(const std::filesystem::path& region_directory,
                                     std::uint64_t version);

// Makes the directory, with this in it.
void open_archive(const std::filesystem::path& region_directory, const std::string& config);
bool has_archive(const std::filesystem::path& region_directory);
// `file` under its name in the archive too: linked, or copied where that is not possible.
void archive(const std::filesystem::path& region_directory, const std::filesystem::path& file);

}  // namespace causeway::diloco
