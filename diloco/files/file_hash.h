// SHA-256 of a whole file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace causeway::diloco {

// Of an open file, from its beginning. Nothing if `stop`, which is asked every few megabytes, says
// so. Throws std::system_error naming the path.
std::optional<std::array<std::uint8_t, 32>> file_hash(int descriptor,
                                                      const std::filesystem::path& path,
                                                      const std::function<bool()>& stop);

}  // namespace causeway::diloco
