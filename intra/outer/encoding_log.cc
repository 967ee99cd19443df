#include "intra/outer/encoding_log.h"
#include "diloco/files/file_io.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

namespace causeway::intra {

void log_encodings(const std::filesystem::path& directory, diloco::Round round,
                   std::span<const TensorEncoding> encodings) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const TensorEncoding& encoding : encodings) {
    const double relative_error = encoding.stats.relative_squared_error();
    tensors.push_back({{"tensor", encoding.tensor},
                       {"codec", encoding.spec},
                       {"stepped_up", encoding.stepped_up},
                       {"bytes", encoding.bytes},
                       {"relative_squared_error", relative_error},
                       {"residual_norm", std::sqrt(encoding.stats.error_norm_squared)}});
    if (!encoding.stepped_up) continue;
    spdlog::warn("round {}: {} went beyond codec.error_max with its own codec and was sent as {}",
                 round, encoding.tensor, encoding.spec);
  }
  // A record of what happened, not part of it: without room for it training goes on.
  const nlohmann::json line{{"round", round}, {"tensors", std::move(tensors)}};
  try {
    diloco::create_private_directories(directory);
    diloco::append_to_rotated_file(directory / "compression.jsonl", line.dump() + "\n",
                                   kEncodingLogBytesMax);
  } catch (const std::system_error& error) {
    spdlog::warn("{}; check the disk and its permissions", error.what());
  }
}

}  // namespace causeway::intra
