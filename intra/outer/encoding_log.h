// What a region writes down of how it encoded its contributions: compression.jsonl.
#pragma once

#include <filesystem>
#include <span>

#include "diloco/log/record.h"
#include "intra/outer/outer_round.h"

namespace causeway::intra {

// Appends to compression.jsonl how the contribution to `round` was encoded: one object per round,
// in it one per tensor. Warns of tensors that the error bound made step up.
void log_encodings(const std::filesystem::path& directory, diloco::Round round,
                   std::span<const TensorEncoding> encodings);

}  // namespace causeway::intra
