// TensorBoard event files: scalars by step, in the framing of TensorFlow records.
//
// A record is: length (8 bytes little-endian), masked CRC-32C of these 8 bytes, the event, masked
// CRC-32C of the event.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run/region/region_files.h"
#include "diloco/files/descriptor.h"

namespace causeway::run {

std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);
std::string frame_record(std::string_view event);

// Writes one event file; a directory with one is one "run" in TensorBoard.
class TensorboardWriter {
 public:
  // Creates the directory. Replaces an earlier file of ours there. Throws std::system_error if it
  // cannot be written.
  explicit TensorboardWriter(const std::filesystem::path& directory);
  void scalars(double wall_time_s, std::int64_t step, const std::map<std::string, double>& values);

 private:
  void write(std::string_view event);
  std::filesystem::path file_;
  diloco::Descriptor out_;
};

// One directory per region under out/tensorboard: loss, tokens_per_s and wan_bytes by step.
// `began_s`: start of the run, seconds since the epoch.
void write_tensorboard(const std::filesystem::path& out, const std::vector<Sample>& samples,
                       double began_s);

}  // namespace causeway::run
