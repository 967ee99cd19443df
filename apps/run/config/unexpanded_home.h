// ~ is written for one's home by a shell alone, and there only where a word begins with it.
// Elsewhere it would name a folder "~" here, which somebody would want to remove one day.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace causeway::run {

// "~" or "~/runs".
bool is_unexpanded_home(std::string_view path);

// The first option of a command line whose path begins so: "--directory=~/runs", which a shell
// leaves as it is.
std::optional<std::string> unexpanded_home(std::span<char* const> arguments);

inline constexpr char kNoHome[] = "~ is not your home here: write the whole path, from / on";

}  // namespace causeway::run
