// A directory of a test's own, whose files are named as options name them.
#pragma once

#include <string>
#include <string_view>

#include "tests/support/temporary_directory.h"

namespace causeway::intra {

class TemporaryDirectory : public test::TemporaryDirectory {
 public:
  // As write().
  std::string file(const std::string& name, std::string_view contents) const {
    return write(name, contents).string();
  }
};

}  // namespace causeway::intra
