// Values out of a TOML file, each refused with file, line and what is allowed. Internal to wan-sim.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace causeway::wan_sim {

struct NumberKey {
  std::string_view key;
  double min, max;
  std::string_view unit;
};

std::string join(std::span<const std::string_view> words);
std::uint32_t line_of(const toml::node& node);

class TomlReader {
 public:
  explicit TomlReader(std::filesystem::path file) : file_(std::move(file)) {}

  const std::filesystem::path& file() const { return file_; }
  [[noreturn]] void fail(std::uint32_t line, const std::string& problem) const;

  toml::table parse(const std::string& text) const;
  void allow_only(const toml::table& table, std::vector<std::string_view> keys) const;
  double number(const toml::node& node, const NumberKey& key) const;
  std::uint64_t whole(const toml::node& node, std::string_view key) const;  // from 0
  std::string text(const toml::node& node, std::string_view key) const;
  std::vector<double> numbers(const toml::node& node, const NumberKey& key, std::size_t min,
                              std::size_t max) const;
  // The place of a word in `words`.
  std::size_t choice(const toml::node& node, std::string_view key,
                     std::span<const std::string_view> words) const;
  std::vector<const toml::table*> tables(const toml::table& root, std::string_view key) const;

 private:
  std::filesystem::path file_;
};

}  // namespace causeway::wan_sim
