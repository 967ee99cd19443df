// The text of a line of the log, as a flag of spdlog's patterns: what others wrote in it does not
// reach the terminal.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include <spdlog/pattern_formatter.h>

#include "inter/base/text.h"

namespace causeway::inter {

class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = printable(std::string_view(line.payload.data(), line.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

// With `%*` for the text.
inline std::unique_ptr<spdlog::pattern_formatter> printable_pattern(
    const std::string& pattern, spdlog::pattern_time_type time = spdlog::pattern_time_type::local) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(time);
  formatter->add_flag<PrintableText>('*').set_pattern(pattern);
  return formatter;
}

}  // namespace causeway::inter
