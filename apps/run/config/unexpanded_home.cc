#include "apps/run/config/unexpanded_home.h"

#include <algorithm>
#include <array>

namespace causeway::run {
namespace {

// Options of one path. Others take text, or a command, in which a shell finds the home.
constexpr std::array<std::string_view, 7> kPaths{
    "--directory", "--certificates", "--config",           "--out",
    "--fork",      "--scenario",     "--fork-certificates"};

bool takes_path(std::string_view option) {
  return std::ranges::find(kPaths, option) != kPaths.end();
}

}  // namespace

bool is_unexpanded_home(std::string_view path) {
  return path == "~" || path.starts_with("~/");
}

std::optional<std::string> unexpanded_home(std::span<char* const> arguments) {
  std::string_view before;
  for (const char* const argument : arguments) {
    const std::string_view word(argument);
    const std::size_t equals = std::min(word.find('='), word.size());
    const bool apart = takes_path(before) && is_unexpanded_home(word);
    const bool together = takes_path(word.substr(0, equals)) && equals < word.size() &&
                          is_unexpanded_home(word.substr(equals + 1));
    if (word == "--") break;
    if (apart) return std::string(before) + " " + std::string(word);
    if (together) return std::string(word);
    before = word;
  }
  return std::nullopt;
}

}  // namespace causeway::run
