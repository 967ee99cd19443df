// Encoding and applying of a pseudo-gradient, and how long a disk takes for what that makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/maths/layout.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

struct CodecProbe {
  std::string codec;  // codec.matrix
  std::uint64_t payload_bytes = 0;
  double bits_per_parameter = 0;
  double encode_s = 0;
  double apply_s = 0;  // of all regions' payloads, the outer step and the digest
  double store_s = 0;  // hashing it and writing it durably
  double relative_squared_error = 0;
};

// With `codec` for matrices, and for vectors the configuration's. `state`: parameters, and the
// anchor from which steps led to them. Throws what the codec throws.
CodecProbe bench_codec(const Config& config, const diloco::Layout& layout,
                       const intra::OuterState& state, const std::string& codec,
                       const std::filesystem::path& directory);

// The median, of hashing and of writing durably: a disk has good and bad moments.
double durable_write_s(const std::filesystem::path& directory, std::span<const std::byte> content);
inline constexpr std::size_t kSmallWriteBytes = 1000;  // a record, a vote

}  // namespace causeway::run
