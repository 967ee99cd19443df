// What an encode that lost too much can be repeated with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace causeway::compression {

// `spec`, spelled out, and above it codecs that keep more, each larger than the one before: two-bit
// top-k with k from 128 to 512, dense:int4, dense:int8, and dense:fp32, which loses nothing.
// Throws Errc::bad_spec.
std::vector<std::string> ladder_above(std::string_view spec);

}  // namespace causeway::compression
