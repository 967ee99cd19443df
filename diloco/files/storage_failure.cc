#include "diloco/files/storage_failure.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace causeway::diloco {

bool is_storage_failure(const std::system_error& error) {
  if (error.code().category() != std::generic_category() &&
      error.code().category() != std::system_category()) {
    return false;
  }
  // Without a free descriptor no file can be opened either, and that passes as well.
  constexpr std::array kOfDisks{ENOSPC, EDQUOT, EFBIG, EIO, EROFS, EMFILE, ENFILE};
  return std::ranges::find(kOfDisks, error.code().value()) != kOfDisks.end();
}

}  // namespace causeway::diloco
