// A file in memory with a path, for tests that write thousands.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace causeway::intra {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents) : descriptor_(memfd_create("test", 0)) {
    if (descriptor_ < 0 || write(descriptor_, contents.data(), contents.size()) !=
                               static_cast<ssize_t>(contents.size())) {
      throw std::system_error(errno, std::generic_category(), "memfd");
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace causeway::intra
