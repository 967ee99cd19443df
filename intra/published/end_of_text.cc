#include "intra/published/end_of_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>

#include "diloco/files/file_io.h"
#include "intra/base/foreign_json.h"

namespace causeway::intra {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kUsualNames{"<|endoftext|>", "<|end_of_text|>", "</s>",
                                                      "<eos>", "<|end|>"};

// Null if there is none, or none that can be read.
json object_in(const std::filesystem::path& file) {
  try {
    json parsed = parse_foreign(diloco::read_file(file).value_or(""));
    return parsed.is_object() ? parsed : json::object();
  } catch (const std::system_error&) {
    return json::object();
  }
}

json entry(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? json() : *found;
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<std::int64_t> number_of(const json& value) {
  const json& first = value.is_array() && !value.empty() ? value.front() : value;
  if (!first.is_number_unsigned()) return std::nullopt;
  return first.get<std::int64_t>();
}

// As tokenizer.json numbers it.
std::optional<std::int64_t> number_of_token(const json& tokenizer, const std::string& content) {
  for (const json& added : entry(tokenizer, "added_tokens")) {
    if (text_of(entry(added, "content")) == content) return number_of(entry(added, "id"));
  }
  return number_of(entry(entry(entry(tokenizer, "model"), "vocab"), content.c_str()));
}

std::optional<std::int64_t> usual_token(const json& tokenizer) {
  std::optional<std::int64_t> only;
  for (const json& added : entry(tokenizer, "added_tokens")) {
    const std::string content = text_of(entry(added, "content"));
    if (std::ranges::find(kUsualNames, content) == kUsualNames.end()) continue;
    if (only) return std::nullopt;
    only = number_of(entry(added, "id"));
  }
  return only;
}

}  // namespace

std::optional<std::int64_t> end_of_text(const std::filesystem::path& directory) {
  const json tokenizer = object_in(directory / "tokenizer.json");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const json token = entry(object_in(directory / name), "eos_token");
    const std::string content = text_of(token.is_object() ? entry(token, "content") : token);
    if (content.empty()) continue;
    if (const auto number = number_of_token(tokenizer, content)) return number;
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (const auto number = number_of(entry(object_in(directory / name), "eos_token_id")))
      return number;
  }
  return usual_token(tokenizer);
}

}  // namespace causeway::intra
