#include "diloco/coordinator/kept_settings.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>

#include <spdlog/spdlog.h>

#include "diloco/coordinator/greeting.h"
#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"

namespace causeway::diloco {
namespace {

constexpr std::string_view kSum = "xxh3 ";  // begins the last line

// Of keys that begin so, a blank behind them: the outer step, the order and size of what a payload
// holds, and the weights that a run begins with.
constexpr std::string_view kOfRecords[] = {
    "model.family ",    "model.hidden ",        "model.kv_heads ",   "model.layers ",
    "model.tied_head ", "model.width ",         "model.vocabulary ", "outer.",
    "run.seed ",        "sync.fragment_order ", "sync.fragments "};

std::string with_sum(const std::string& settings) {
  return settings + std::string(kSum) + hex_checksum(settings) + "\n";
}

bool are_settings(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" = ") == std::string::npos) return false;
  return true;
}

// None if they are damaged. Earlier versions wrote no checksum.
std::optional<std::string> without_sum(const std::string& bytes) {
  const std::size_t sum = bytes.rfind(kSum);
  if (sum == std::string::npos) return are_settings(bytes) ? std::optional(bytes) : std::nullopt;
  const std::string settings = bytes.substr(0, sum);
  return bytes == with_sum(settings) ? std::optional(settings) : std::nullopt;
}

bool decides_about_records(const std::string& key) {
  return std::ranges::any_of(
      kOfRecords, [&](std::string_view begin) { return (key + " ").starts_with(begin); });
}

// Those lines of `text` that decide about records, and whose key `other` has too.
std::string of_records(const std::string& text, const std::string& other) {
  const auto known = settings_in(other);
  std::string kept;
  for (const auto& [key, value] : settings_in(text)) {
    if (decides_about_records(key) && known.contains(key)) kept += key + " = " + value + "\n";
  }
  return kept;
}

}  // namespace

KeptSettings::KeptSettings(const std::filesystem::path& directory)
    : file_(directory / "settings.txt") {
  written_ = read_file(file_);
  if (!written_) return;
  before_ = without_sum(*written_);
  if (before_) return;
  spdlog::warn(
      "{} is damaged, so it is not known whether settings of the run have changed since the last "
      "start. It is written anew",
      file_.string());
}

std::string KeptSettings::changed(const std::string& now) const {
  return before_ ? config_differences({*before_, "before"}, {now, "now"}) : "";
}

std::string KeptSettings::changed_for_records(const std::string& now) const {
  if (!before_) return {};
  return config_differences({of_records(*before_, now), "before"},
                            {of_records(now, *before_), "now"});
}

void KeptSettings::replace(const std::string& now) const {
  const std::string text = with_sum(now);
  if (written_ != text) replace_file(file_, text, Durability::on_disk);
}

}  // namespace causeway::diloco
