// The program's log: where it goes and what its lines look like.
#pragma once

#include <filesystem>

#include <spdlog/common.h>

namespace causeway::run {

enum class LogFormat { text, json };

// To standard error, with a budget for each kind of line. Once, before anything is logged.
void begin_log();
// `json`: each line an object with time (UTC), level, pid and text.
void set_log_format(LogFormat format);
void set_log_level(spdlog::level::level_enum level);

// Also into `file`, at most 16 MiB and two older ones, unless standard error is that file (as where
// `causeway simulate` started this process). Throws ConfigError if `file` is a symbolic link. What
// cannot be written there is left out.
void log_to_file(const std::filesystem::path& file);

}  // namespace causeway::run
