// The range of a number on the command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace causeway::apps {

// Unlike CLI::Range this refuses NaN as well, and what is negative before it is made unsigned.
inline CLI::Validator number_from(double min, double max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(text, number) && number >= min && number <= max) return {};
    return text + ": must be a number from " + CLI::detail::to_string(min) + " to " +
           CLI::detail::to_string(max);
  };
  return {check, "NUMBER"};
}

}  // namespace causeway::apps
