// Throw-away certificates for tests. Link causeway::inter.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inter/tls/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::test {

// A CA and one valid certificate per region, in a temporary directory.
class TestPki {
 public:
  explicit TestPki(const std::vector<std::string>& regions) {
    inter::create_ca(directory_.path(), "test");
    for (const std::string& region : regions) {
      inter::add_region(directory_.path(), region);
    }
  }

  inter::Credentials credentials(const std::string& region) const {
    return inter::credentials_in(directory_.path(), region);
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace causeway::test
