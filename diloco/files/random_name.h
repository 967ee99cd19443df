// Names that no two runs or disks share.
#pragma once

#include <string>

namespace causeway::diloco {

std::string random_name();  // 32 hexadecimal digits. Throws std::system_error
bool is_random_name(const std::string& text);

}  // namespace causeway::diloco
