// A directory that lives as long as the object.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace causeway::intra {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "causeway-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes `contents` to the file `name` and returns its path.
  std::string file(const std::string& name, std::string_view contents) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary) << contents;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace causeway::intra
