// Where two states of one version part.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "diloco/maths/layout.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

// The first element in which the state differs from that in `file` (a snapshot), in words: span,
// tensor, element, both numbers. None: they are equal bit for bit. Throws
// intra::Errc::bad_checkpoint naming the file if it cannot be read.
std::optional<std::string> first_difference(const diloco::Layout& layout,
                                            const intra::OuterState& state,
                                            const std::filesystem::path& file);

}  // namespace causeway::run
