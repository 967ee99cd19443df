#include "apps/run/config/toml_advice.h"

#include <array>
#include <utility>

namespace causeway::run {
namespace {

// Words of toml++ 3, and what was probably meant. The first that are found count.
using Advice = std::pair<std::string_view, std::string_view>;
constexpr std::array<Advice, 9> kAdvice{{
    {"parsing string: unescaped control", "a text ends on its line with the quote that begins it"},
    {"parsing string: unknown escape", "write / instead of \\ in paths, or \\\\"},
    {"could not determine value type", "texts stand in straight quotes, \"like this\""},
    {"parsing boolean", "write true or false, in small letters, and texts in quotes"},
    {"integer: expected", "numbers have no unit; `causeway config` says in which unit a key is"},
    {"floating-point: expected", "numbers have no unit; `causeway config` says in which a key is"},
    {"comment or whitespace, saw ','", "decimals have a point: 0.5"},
    {"utf-8", "save the file as UTF-8"},
    {"redefine existing table 'regions'", "each region begins with [[regions]]"},
}};

}  // namespace

std::string toml_advice(std::string_view problem) {
  for (const auto& [words, advice] : kAdvice)
    if (problem.find(words) != std::string_view::npos) return "; " + std::string(advice);
  return "";
}

}  // namespace causeway::run
