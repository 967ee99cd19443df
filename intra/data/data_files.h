// Which files a data set has: what paths and globs match, each file once by whatever names, without
// those that are for validation alone.
#pragma once

#include <string>
#include <vector>

#include "intra/data/data_options.h"

namespace causeway::intra {

// In the order in which they are read. Of several names for one file (., symbolic and hard links)
// the first is taken: a file that is read twice would put validation text into the training part.
// What options.validation_files matches is left out. Both are said in the log. Throws
// Errc::bad_data naming a pattern that matches nothing, or a folder that cannot be searched.
std::vector<std::string> find_data_files(const DataOptions& options);

}  // namespace causeway::intra
