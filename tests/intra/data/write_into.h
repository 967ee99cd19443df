// Writes to a file of data as somebody does who does not replace it.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace causeway::intra {

inline void write_into(const std::string& file, std::string_view bytes) {
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  // Clocks of file systems are coarse.
  const auto now = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, now + std::chrono::seconds(1));
}

}  // namespace causeway::intra
