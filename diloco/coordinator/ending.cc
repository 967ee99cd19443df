#include "diloco/coordinator/ending.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace causeway::diloco {

bool is_storage_failure(const std::system_error& error) {
  if (error.code().category() != std::generic_category() &&
      error.code().category() != std::system_category()) {
    return false;
  }
  constexpr std::array kOfDisks{ENOSPC, EDQUOT, EFBIG, EIO, EROFS};
  return std::ranges::find(kOfDisks, error.code().value()) != kOfDisks.end();
}

void Ending::finish(Outcome outcome) {
  if (!outcome_) outcome_ = std::move(outcome);
  changed_.notify();
}

void Ending::fail(std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) return fail_for_good(failure);
    if (storage_failure_.empty()) storage_failure_ = error.what();
    changed_.notify();
  } catch (...) {
    fail_for_good(failure);
  }
}

void Ending::fail_for_good(std::exception_ptr failure) {
  if (!failure_) failure_ = std::move(failure);
  changed_.notify();
}

}  // namespace causeway::diloco
