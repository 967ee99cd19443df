// The log of what is tested, to look for what it must say.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

namespace causeway::test {

// What the default logger says while this object lives, on whatever thread.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()), sink_(std::make_shared<Sink>()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }

  std::string text() const { return sink_->text(); }
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
  class Sink : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string text() {
      const std::lock_guard lock(mutex_);
      return text_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      spdlog::memory_buf_t line;
      formatter_->format(message, line);
      text_.append(line.data(), line.size());
    }
    void flush_() override {}

    std::string text_;
  };

  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<Sink> sink_;
};

}  // namespace causeway::test
