#include "apps/run/config/key_builders.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "apps/run/config/config_schema.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

template <typename T>
std::string shortest(T value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

double widen(double value) {
  return value;
}
double widen(float value) {
  const std::string text = shortest(value);
  double result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

std::string format_number(double value) {
  const auto whole = static_cast<std::int64_t>(std::clamp(value, -1e15, 1e15));
  return double(whole) == value ? std::to_string(whole) : shortest(value);
}

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      out += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string format_value(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return format_number(*real);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  std::string items;
  for (const std::string& item : std::get<std::vector<std::string>>(value)) {
    inter::append_item(items, quote(item));
  }
  return "[" + items + "]";
}

std::vector<std::string> texts_of(const Value& value, const std::string& allowed) {
  std::vector<std::string> texts;
  if (const auto* one = std::get_if<std::string>(&value)) {
    texts = {*one};
  } else if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    texts = *list;
  } else {
    throw std::invalid_argument("must be a list of texts: " + allowed);
  }
  const auto has_zero = [](const std::string& t) { return t.find('\0') != std::string::npos; };
  if (std::any_of(texts.begin(), texts.end(), has_zero))
    throw std::invalid_argument("must not contain a zero byte");
  return texts;
}

}  // namespace causeway::run
