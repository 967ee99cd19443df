// The log of what is tested, to look for what it must say.
#pragma once

#include <memory>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

namespace causeway::test {

// What the default logger says while this object lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }

  std::string text() const { return text_.str(); }
  bool has(const std::string& words) const { return text().find(words) != std::string::npos; }
  std::size_t count(const std::string& words) const {
    std::size_t found = 0;
    const std::string all = text();
    for (std::size_t at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) {
      ++found;
    }
    return found;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

}  // namespace causeway::test
