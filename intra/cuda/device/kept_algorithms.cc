#include "intra/cuda/device/kept_algorithms.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"

namespace causeway::intra::cuda {
namespace {

using Algorithm = KeptAlgorithms::Algorithm;

constexpr std::string_view kFirstLine = "causeway's products 1\n";
constexpr std::size_t kDigits = 16;

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::string hex_of(const Algorithm& algorithm) {
  std::string text;
  for (const std::uint64_t number : algorithm) {
    std::array<char, kDigits + 1> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
    text += digits.data();
  }
  return text;
}

// The text has a right checksum.
Algorithm algorithm_of(std::string_view text) {
  Algorithm algorithm{};
  for (std::uint64_t& number : algorithm) {
    number = std::strtoull(std::string(text.substr(0, kDigits)).c_str(), nullptr, 16);
    text.remove_prefix(std::min(kDigits, text.size()));
  }
  return algorithm;
}

}  // namespace

std::filesystem::path KeptAlgorithms::default_file() {
  const auto in = [](const char* variable, const char* below) {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || *folder != '/') return std::filesystem::path();
    return std::filesystem::path(folder) / below / "causeway" / "products";
  };
  const std::filesystem::path cache = in("XDG_CACHE_HOME", "");
  return cache.empty() ? in("HOME", ".cache") : cache;
}

KeptAlgorithms::KeptAlgorithms(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)) {
  try {
    if (file_.empty()) throw std::runtime_error("neither XDG_CACHE_HOME nor HOME names a folder");
    std::filesystem::create_directories(file_.parent_path());
    const std::string all = diloco::read_file(file_).value_or("");
    if (!all.empty() && !all.starts_with(kFirstLine))
      throw std::runtime_error("it is no file of this kind: remove it");
    diloco::append_to_file(file_, all.empty() ? kFirstLine : "");
    can_keep_ = true;
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

void KeptAlgorithms::give_up(const std::string& why) {
  can_keep_ = false;
  spdlog::warn(
      "which of cuBLASLt's kernels are the fastest cannot be kept in {} ({}): the first that it "
      "proposes are taken",
      file_.empty() ? "a file" : file_.string(), why);
}

std::string KeptAlgorithms::content() {
  try {
    const std::string all = diloco::read_file(file_).value_or("");
    return all.starts_with(kFirstLine) ? all.substr(kFirstLine.size()) : "";
  } catch (const std::exception& error) {
    if (can_keep_) give_up(error.what());
    return "";
  }
}

std::optional<Algorithm> KeptAlgorithms::find(const std::string& product,
                                              const std::function<bool(const Algorithm&)>& usable) {
  const std::string all = content();
  for (const std::string_view line : parts_of(all, '\n')) {
    // Two that began the file at one time have both said what it is.
    if (line.empty() || kFirstLine.starts_with(line)) continue;
    const std::size_t tab = std::min(line.find('\t'), line.size() - 1);
    const std::string_view rest = line.substr(tab + 1);
    if (line.substr(0, tab) != diloco::hex_checksum(rest)) {
      if (!std::exchange(said_damaged_, true))
        spdlog::warn("a line of {} is damaged: its product is timed again", file_.string());
      continue;
    }
    const std::vector<std::string_view> parts = parts_of(rest, '\t');
    if (parts.size() != 3 || parts[0] != machine_ || parts[1] != product) continue;
    const Algorithm algorithm = algorithm_of(parts[2]);
    if (usable(algorithm)) return algorithm;
  }
  return std::nullopt;
}

void KeptAlgorithms::keep(const std::string& product, const Algorithm& algorithm) {
  const std::string rest = machine_ + '\t' + product + '\t' + hex_of(algorithm);
  try {
    // Its own line also after one that a crash cut off.
    diloco::append_to_file(file_, '\n' + diloco::hex_checksum(rest) + '\t' + rest + '\n');
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

}  // namespace causeway::intra::cuda
