#include "apps/run/watch/begin_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "inter/base/printable_text.h"
#include "inter/base/retry.h"

namespace causeway::run {
namespace {

// The log of the program, in which no kind of line can crowd out the others: lines that differ in
// numbers alone have a budget of kLinesAMinute, and what is above it is counted.

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

}  // namespace

namespace {

constexpr std::size_t kFileBytesMax = 16U << 20;
constexpr std::size_t kOlderFiles = 2;

LogFormat& format() {
  static LogFormat format = LogFormat::text;
  return format;
}

// The line's text as a JSON string.
class JsonText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const nlohmann::json text =
        inter::printable(std::string_view(line.payload.data(), line.payload.size()));
    const std::string quoted = text.dump();
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

std::unique_ptr<spdlog::formatter> formatter() {
  if (format() == LogFormat::text)
    return inter::printable_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  auto json = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  json->add_flag<JsonText>('*').set_pattern(
      R"({"time": "%Y-%m-%dT%H:%M:%S.%eZ", "level": "%l", "pid": %P, "text": %*})");
  return json;
}

bool is_standard_error(const std::filesystem::path& file) {
  struct stat named {
  }, open{};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(STDERR_FILENO, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

std::shared_ptr<spdlog::sinks::sink> with_budget(std::shared_ptr<spdlog::sinks::sink> sink) {
  sink = std::make_shared<BudgetedSink>(std::move(sink));
  sink->set_formatter(formatter());
  return sink;
}

}  // namespace

void begin_log() {
  auto sink = with_budget(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("causeway", std::move(sink)));
}

void set_log_format(LogFormat wanted) {
  format() = wanted;
  spdlog::set_formatter(formatter());
}

void set_log_level(spdlog::level::level_enum level) {
  spdlog::set_level(level);
}

void log_to_file(const std::filesystem::path& file) {
  if (std::filesystem::is_symlink(file))
    throw ConfigError(file.string() + " is a symbolic link; remove it: the log is kept there");
  if (is_standard_error(file)) return;
  try {
    auto sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file.string(), kFileBytesMax,
                                                                       kOlderFiles);
    spdlog::default_logger()->sinks().push_back(with_budget(std::move(sink)));
    spdlog::flush_on(spdlog::level::info);
    spdlog::set_error_handler([](const std::string&) {});  // standard error still has the line
  } catch (const spdlog::spdlog_ex& failure) {
    spdlog::warn("no log is kept in {}: {}", file.string(), failure.what());
  }
}

}  // namespace causeway::run
