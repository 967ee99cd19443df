// wan-sim's error category.
#pragma once

#include <system_error>

namespace causeway::wan_sim {

enum class Errc { bad_scenario = 1 };
std::error_code make_error_code(Errc code);

}  // namespace causeway::wan_sim

template <>
struct std::is_error_code_enum<causeway::wan_sim::Errc> : std::true_type {};
