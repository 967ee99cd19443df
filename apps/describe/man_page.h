#pragma once

#include <string>
#include <vector>

#include "apps/describe/command.h"

namespace causeway::describe {

// In the man macros of roff, section 1.
std::string man_page(const std::vector<Command>& all, const std::string& version);

}  // namespace causeway::describe
