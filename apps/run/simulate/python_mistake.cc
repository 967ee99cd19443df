#include "apps/run/simulate/python_mistake.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace causeway::run {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kFrame = "  File \"";
constexpr std::uintmax_t kPrintedMax = 1U << 20;  // the end of a life is what counts

// PyTorch puts "[rank0]: " before each line.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const std::size_t end = line.find("]:");
  if (end == std::string_view::npos) return line;
  line.remove_prefix(std::min(line.size(), end + 2));
  return line.starts_with(' ') ? line.substr(1) : line;
}

// What says that another process or host is gone, or was told to stop, and nothing of the program.
bool is_about_others(std::string_view exception) {
  constexpr std::array kTypes{"ChildFailedError",
                              "SignalException",
                              "DistBackendError",
                              "DistNetworkError",
                              "DistStoreError",
                              "WorkerError",
                              "Stopped",
                              "KeyboardInterrupt",
                              "ConnectionResetError",
                              "ConnectionRefusedError",
                              "BrokenPipeError",
                              "TimeoutError",
                              "ConnectionError",
                              "OSError",
                              "EOFError"};
  const std::string_view type = exception.substr(0, exception.find(':'));
  const std::string_view name = type.substr(type.rfind('.') + 1);
  const auto mentions = [exception](const char* word) {
    return exception.find(word) != std::string_view::npos;
  };
  return std::ranges::find(kTypes, name) != kTypes.end() || mentions("gloo") || mentions("NCCL") ||
         mentions("Connection closed by peer") || mentions("Connection reset by peer");
}

// File and line of the innermost frame.
std::string place_in(std::string_view frame) {
  frame.remove_prefix(kFrame.size());
  const std::size_t end = frame.find("\", line ");
  if (end == std::string_view::npos) return std::string(frame);
  const std::string_view rest = frame.substr(end + 1);
  return std::string(frame.substr(0, end)) + std::string(rest.substr(0, rest.find(", in ")));
}

}  // namespace

std::optional<std::string> python_mistake(std::string_view printed) {
  std::optional<std::string> found;
  std::string place;
  bool inside = false;
  while (!printed.empty()) {
    const std::size_t end = std::min(printed.find('\n'), printed.size());
    const std::string_view line = without_rank(printed.substr(0, end));
    printed.remove_prefix(std::min(end + 1, printed.size()));
    if (line == kTraceback) {
      inside = true;
      place.clear();
    } else if (inside && line.starts_with(kFrame)) {
      place = place_in(line);
    } else if (inside && !line.empty() && !line.starts_with(' ')) {
      inside = false;
      if (!place.empty() && !is_about_others(line)) found = place + ": " + std::string(line);
    }
  }
  return found;
}

std::optional<std::string> RepeatedMistake::on_end(const std::filesystem::path& log) {
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(log, ignored);
  if (ignored) return std::nullopt;
  if (size < read_) read_ = 0;  // it was begun anew
  std::ifstream file(log, std::ios::binary);
  const std::uintmax_t from = std::max(read_, size > kPrintedMax ? size - kPrintedMax : 0);
  file.seekg(static_cast<std::streamoff>(from));
  const std::string printed{std::istreambuf_iterator<char>(file), {}};
  read_ = size;
  const std::string mistake = python_mistake(printed).value_or("");
  const auto place = [](const std::string& of) { return of.substr(0, of.find(": ")); };
  const bool again = !mistake.empty() && place(mistake) == place(last_);
  last_ = mistake;
  return again ? std::optional(mistake) : std::nullopt;
}

}  // namespace causeway::run
