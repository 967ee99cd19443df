#include "wan-sim/scenario/toml_reader.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "inter/base/text.h"
#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string_view nearest(const std::vector<std::string_view>& known, std::string_view word) {
  // Relative to the length, or every short key would be near.
  const auto distance = [&](std::string_view other) {
    return static_cast<double>(edit_distance(other, word)) /
           static_cast<double>(std::max(other.size(), word.size()));
  };
  return *std::min_element(known.begin(), known.end(),
                           [&](auto a, auto b) { return distance(a) < distance(b); });
}

std::string format(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string range(const NumberKey& key) {
  const std::string unit = key.unit.empty() ? "" : " " + std::string(key.unit);
  return "from " + format(key.min) + " to " + format(key.max) + unit;
}

std::optional<double> value_in(const toml::node& node, const NumberKey& key) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && *value >= key.min && *value <= key.max ? value : std::nullopt;
}

}  // namespace

std::string join(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) inter::append_item(text, word);
  return text;
}

std::uint32_t line_of(const toml::node& node) {
  return node.source().begin.line;
}

void TomlReader::fail(std::uint32_t line, const std::string& problem) const {
  const std::string where = line == 0 ? file_.string() : fmt::format("{}:{}", file_.string(), line);
  throw std::system_error(Errc::bad_scenario, where + ": " + problem);
}

toml::table TomlReader::parse(const std::string& text) const {
  try {
    return toml::parse(text, file_.string());
  } catch (const toml::parse_error& error) {
    fail(error.source().begin.line, std::string(error.description()));
  }
}

void TomlReader::allow_only(const toml::table& table, std::vector<std::string_view> keys) const {
  for (const auto& [key, node] : table) {
    if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
    fail(key.source().begin.line, "unknown key '" + std::string(key.str()) + "'; did you mean '" +
                                      std::string(nearest(keys, key.str())) +
                                      "'? (allowed here: " + join(keys) + ")");
  }
}

double TomlReader::number(const toml::node& node, const NumberKey& key) const {
  const auto value = value_in(node, key);
  if (!value) fail(line_of(node), std::string(key.key) + " must be a number " + range(key));
  return *value;
}

std::uint64_t TomlReader::whole(const toml::node& node, std::string_view key) const {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0) fail(line_of(node), std::string(key) + " must be an integer from 0");
  return static_cast<std::uint64_t>(*value);
}

std::string TomlReader::text(const toml::node& node, std::string_view key) const {
  const auto value = node.value_exact<std::string>();
  if (!value || value->empty()) {
    fail(line_of(node), std::string(key) + " must be a string that is not empty");
  }
  return *value;
}

std::vector<double> TomlReader::numbers(const toml::node& node, const NumberKey& key,
                                        std::size_t min, std::size_t max) const {
  const toml::array* list = node.as_array();
  if (!list || list->size() < min || list->size() > max) {
    fail(line_of(node), fmt::format("{} must be a list of {}{} numbers {}", key.key, min,
                                    min == max ? "" : fmt::format(" to {}", max), range(key)));
  }
  std::vector<double> values;
  for (const toml::node& item : *list) values.push_back(number(item, key));
  return values;
}

std::size_t TomlReader::choice(const toml::node& node, std::string_view key,
                               std::span<const std::string_view> words) const {
  const auto value = node.value_exact<std::string>();
  const auto found = value ? std::find(words.begin(), words.end(), *value) : words.end();
  if (found == words.end()) {
    fail(line_of(node), std::string(key) + " must be one of: " + join(words));
  }
  return static_cast<std::size_t>(found - words.begin());
}

std::vector<const toml::table*> TomlReader::tables(const toml::table& root,
                                                   std::string_view key) const {
  std::vector<const toml::table*> tables;
  const toml::node* list = root.get(key);
  if (!list) return tables;
  const std::string name(key);
  if (!list->is_array()) fail(line_of(*list), name + "s are written as [[" + name + "]]");
  for (const toml::node& node : *list->as_array()) {
    if (!node.is_table()) fail(line_of(node), name + " must be a table, as in [[" + name + "]]");
    tables.push_back(node.as_table());
  }
  return tables;
}

}  // namespace causeway::wan_sim
