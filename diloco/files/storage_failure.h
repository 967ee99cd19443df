#pragma once

#include <system_error>

namespace causeway::diloco {

// Of the disk, not of the program: worth trying again when somebody has looked after it.
bool is_storage_failure(const std::system_error& error);

}  // namespace causeway::diloco
