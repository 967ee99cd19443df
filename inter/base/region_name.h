// What regions can be called.
#pragma once

#include <cstddef>
#include <string_view>

namespace causeway::inter {

constexpr std::size_t kRegionNameBytesMax = 63;
constexpr std::string_view kAuthorityName = "ca";  // of the files of the run's authority

// 1 to kRegionNameBytesMax of [a-z0-9-], but not kAuthorityName.
bool can_name_region(std::string_view text);

}  // namespace causeway::inter
