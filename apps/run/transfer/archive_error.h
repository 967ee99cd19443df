// What is wrong with an archive, in words that follow its name: "the archive ...".
#pragma once

#include "apps/run/region/region_files.h"

namespace causeway::run {

class ArchiveError : public RunError {
 public:
  using RunError::RunError;
};

}  // namespace causeway::run
