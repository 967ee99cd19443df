// Members of JSON that another process wrote: one that is missing, or of another type, reads as a
// default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace causeway::run {

// Nothing if the text is not a JSON object: a file may be half-written or damaged.
inline std::optional<nlohmann::json> parse_object(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

template <typename T>
T get(const nlohmann::json& json, const char* name) {
  const auto member = json.find(name);
  if (member == json.end()) return T{};
  if constexpr (std::is_same_v<T, std::string>) {
    return member->is_string() ? member->get<std::string>() : T{};
  } else if constexpr (std::is_same_v<T, bool>) {
    return member->is_boolean() && member->get<bool>();
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return member->is_number_unsigned() ? member->get<std::uint64_t>() : T{};
  } else {
    return member->is_number() ? member->get<T>() : T{};
  }
}

inline std::optional<double> number_in(const nlohmann::json& json, const char* name) {
  const auto member = json.find(name);
  if (member == json.end() || !member->is_number()) return std::nullopt;
  return member->get<double>();
}

inline nlohmann::json object_in(const nlohmann::json& json, const char* name) {
  const auto member = json.find(name);
  return member != json.end() && member->is_object() ? *member : nlohmann::json::object();
}

}  // namespace causeway::run
