#include "compression/base/spec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>

#include "compression/base/codec.h"

namespace causeway::compression {
namespace {

// The whole text as a number.
template <typename Number>
std::optional<Number> parse(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::string shortest(double number) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.begin(), buffer.end(), number);
  return {buffer.data(), result.ptr};
}

}  // namespace

Spec::Spec(std::string_view text) : text_(text) {
  const std::size_t colon = text.find(':');
  family_ = text.substr(0, colon);
  if (colon == std::string_view::npos) return;
  std::string_view rest = text.substr(colon + 1);
  for (bool first = true;; first = false) {
    const std::size_t comma = rest.find(',');
    add_setting(rest.substr(0, comma), first);
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

void Spec::add_setting(std::string_view setting, bool first) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos) {
    if (setting.empty() || !first) {
      refuse("\"" + std::string(setting) + "\" is not a setting; write key=value");
    }
    variant_ = setting;
    return;
  }
  const std::string key(setting.substr(0, equals));
  if (!settings_.emplace(key, setting.substr(equals + 1)).second) {
    refuse("\"" + key + "\" is set twice");
  }
}

std::size_t Spec::take_number(const std::string& key, std::size_t otherwise,
                              const std::function<bool(std::size_t)>& allowed,
                              const std::string& allowed_in_words) {
  const std::string text = take_text(key, std::to_string(otherwise));
  const auto number = parse<std::size_t>(text);
  if (!number || !allowed(*number)) {
    refuse(key + "=" + text + " is not allowed; " + key + " must be " + allowed_in_words);
  }
  return *number;
}

std::pair<double, std::string> Spec::take_real(const std::string& key, double otherwise,
                                               const std::function<bool(double)>& allowed,
                                               const std::string& allowed_in_words) {
  const std::string text = take_text(key, shortest(otherwise));
  const auto number = parse<double>(text);
  if (!number || !allowed(*number)) {
    refuse(key + "=" + text + " is not allowed; " + key + " must be " + allowed_in_words);
  }
  return {*number, shortest(*number)};
}

bool Spec::take_stochastic() {
  return take_word("rounding", "nearest", {"nearest", "stochastic"}) == "stochastic";
}

std::size_t Spec::take_kept() {
  return take_number(
      "k", 64, [](std::size_t n) { return n >= 1 && n <= kChunk; },
      "a number from 1 to " + std::to_string(kChunk) + ": the elements kept of each chunk");
}

std::size_t Spec::take_block(std::size_t otherwise) {
  return take_number(
      "block", otherwise, [](std::size_t n) { return std::has_single_bit(n) && n <= kChunk; },
      "a power of two from 1 to " + std::to_string(kChunk));
}

std::string Spec::take_text(const std::string& key, const std::string& otherwise) {
  known_ += " " + key;
  const auto setting = settings_.extract(key);
  return setting.empty() ? otherwise : setting.mapped();
}

std::string Spec::take_word(const std::string& key, const std::string& otherwise,
                            std::initializer_list<const char*> allowed) {
  std::string word = take_text(key, otherwise);
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;
  std::string all;
  for (const char* each : allowed) all += std::string(" ") + each;
  refuse(key + "=" + word + " is not allowed; allowed:" + all);
}

void Spec::finish() const {
  if (settings_.empty()) return;
  refuse("unknown setting \"" + settings_.begin()->first +
         "\"; allowed:" + (known_.empty() ? " none" : known_));
}

void Spec::refuse(const std::string& why) const {
  fail(Errc::bad_spec, "codec \"" + text_ + "\": " + why);
}

}  // namespace causeway::compression
