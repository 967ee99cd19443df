// TensorBoard event files: scalars by step, in the framing of TensorFlow records.
//
// A record is: length (8 bytes little-endian), masked CRC-32C of these 8 bytes, the event, masked
// CRC-32C of the event.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "apps/run/region/region_files.h"
#include "diloco/files/file_io.h"

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

// One directory per region under out/tensorboard: loss, val_loss, tokens_per_s and wan_bytes by
// step.
class Tensorboard {
 public:
  // `began_s`: start of the run, seconds since the epoch.
  Tensorboard(std::filesystem::path out, double began_s)
      : out_(std::move(out)), began_s_(began_s) {}
  void add(Sample sample) { waiting_.push_back(std::move(sample)); }
  // All that was added; what an earlier process left of a region begins anew. Throws
  // std::system_error: what is not written then is so the next time.
  void write();

 private:
  void write(const Sample& sample);

  std::filesystem::path out_;
  double began_s_;
  std::deque<Sample> waiting_;
  std::map<std::string, TensorboardWriter> writers_;  // by region
};

}  // namespace causeway::run
