// What a region writes down of how it encoded its contributions: compression.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "diloco/log/record.h"
#include "intra/outer/outer_round.h"

namespace causeway::intra {

// As the program's logs, it is kept up to this size, with two older ones, as it grows with every
// tensor and round: compression.1.jsonl and compression.2.jsonl.
constexpr std::uint64_t kEncodingLogBytesMax = 16U << 20;

// Appends to compression.jsonl how the contribution to `round` was encoded: one object per round,
// in it one per tensor. Warns of tensors that the error bound made step up.
void log_encodings(const std::filesystem::path& directory, diloco::Round round,
                   std::span<const TensorEncoding> encodings);

}  // namespace causeway::intra
