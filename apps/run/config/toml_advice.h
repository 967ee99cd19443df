// What to do about a configuration that is no TOML.
#pragma once

#include <string>
#include <string_view>

namespace causeway::run {

// By the parser's words, for what people mistype most: "; decimals have a point: 0.5", or nothing.
std::string toml_advice(std::string_view problem);

}  // namespace causeway::run
