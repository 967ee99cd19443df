// A run's weights alone, as one file that is the same bytes wherever it is made:
//
//   length of the header   8 bytes, little-endian
//   header                 JSON: version, digest (of the state), layout and tensors, as in a
//                          snapshot's metadata
//   weights                bf16 of each element of the anchor, rounded to nearest, little-endian
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/log/record.h"

namespace causeway::run {

// Holds a small part of it in memory at a time. Throws intra::Errc::bad_checkpoint if `snapshot` is
// none, and std::system_error naming a file that fails.
void write_weights_image(const std::filesystem::path& snapshot, const std::filesystem::path& image);

// The parts of such a file. Its bytes are those that the regions agreed on, so what its header says
// is believed; a file that is none throws diloco::Errc::malformed.
class WeightsImage {
 public:
  explicit WeightsImage(const std::filesystem::path& file);

  std::string header() const;
  std::span<const std::uint16_t> weights() const;
  diloco::Round version() const { return version_; }
  // As `causeway follow` publishes the whole state. Throws ConfigError if the configured model has
  // other tensors.
  void write_model(const std::filesystem::path& directory, const Config& config,
                   const std::string& run_id) const;

 private:
  std::filesystem::path file_;
  diloco::MappedBytes mapped_;
  std::size_t header_bytes_ = 0;
  diloco::Round version_ = 0;
};

inline constexpr std::size_t kImageHeaderBytesMax = 16'000'000;  // some 100 for each tensor
inline constexpr std::size_t kImagePieceElements = 1 << 20;      // in memory at a time

}  // namespace causeway::run
