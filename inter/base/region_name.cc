#include "inter/base/region_name.h"

#include <algorithm>

namespace causeway::inter {

bool can_name_region(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kRegionNameBytesMax &&
         std::ranges::all_of(text, allowed) && text != kAuthorityName;
}

}  // namespace causeway::inter
