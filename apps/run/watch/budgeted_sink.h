// The log of the program, in which no kind of line can crowd out the others: lines that differ in
// numbers alone have a budget of kLinesAMinute, and what is above it is counted.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/sinks/base_sink.h>

#include "inter/base/retry.h"

namespace causeway::run {

class BudgetedSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static constexpr unsigned kLinesAMinute = 120;

  explicit BudgetedSink(std::shared_ptr<spdlog::sinks::sink> below) : below_(std::move(below)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto more = budget_.take(inter::LogBudget::kind_of(text));
    if (!more) return;
    const std::string whole = std::string(text) + *more;
    spdlog::details::log_msg line = message;
    line.payload = whole;
    below_->log(line);
  }
  void flush_() override { below_->flush(); }
  void set_pattern_(const std::string& pattern) override { below_->set_pattern(pattern); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    below_->set_formatter(std::move(formatter));
  }

  std::shared_ptr<spdlog::sinks::sink> below_;
  inter::LogBudget budget_{kLinesAMinute};
};

}  // namespace causeway::run
