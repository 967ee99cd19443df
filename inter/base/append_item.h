// Lists in messages: "a, b, c".
#pragma once

#include <string>
#include <string_view>

namespace causeway::inter {

inline void append_item(std::string& list, std::string_view item) {
  list += list.empty() ? "" : ", ";
  list += item;
}

}  // namespace causeway::inter
