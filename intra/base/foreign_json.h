// JSON that others wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace causeway::intra {

// Discarded (Json::is_discarded) if `text` is not JSON, or nests deeper than any file that is read
// here: printing a value, as messages do, takes a stack frame for each level.
template <typename Json = nlohmann::json>
Json parse_foreign(const std::string& text) {
  constexpr int kDepthMost = 32;
  bool too_deep = false;
  const typename Json::parser_callback_t watch = [&](int depth, typename Json::parse_event_t,
                                                     Json&) {
    too_deep = too_deep || depth > kDepthMost;
    return !too_deep;
  };
  Json parsed = Json::parse(text, watch, false);
  return too_deep ? Json(Json::value_t::discarded) : parsed;
}

}  // namespace causeway::intra
