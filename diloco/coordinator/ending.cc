#include "diloco/coordinator/ending.h"

#include <utility>

#include "diloco/files/storage_failure.h"

namespace causeway::diloco {

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
