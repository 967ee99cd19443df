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
  constexpr std::array kOfDisks{ENOSPC, EDQUOT, EFBIG, EIO, EROFS};
  return std::ranges::find(kOfDisks, error.code().value()) != kOfDisks.end();
}

}  // namespace causeway::diloco
