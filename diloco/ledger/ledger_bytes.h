// The bytes of `ledger/records`, which are many after a long run: a part of them is in memory at a
// time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "inter/base/file.h"

namespace causeway::diloco {

class LedgerBytes {
 public:
  // Throws std::runtime_error or std::system_error naming it if it is no file that can be read.
  explicit LedgerBytes(const std::filesystem::path& path);

  std::size_t size() const { return size_; }  // as it was opened
  // Valid until the next call. Fewer at the end of the file.
  std::string_view at(std::size_t offset, std::size_t length);

 private:
  void read(std::size_t offset, std::size_t length);

  inter::File file_;
  std::size_t size_ = 0, begin_ = 0;  // of the file; of the part in it
  std::string part_;
};

}  // namespace causeway::diloco
