#include "intra/worker/saving.h"

#include <bit>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"

namespace causeway::intra {

bool Saving::attempt(const std::function<void()>& write) {
  try {
    write();
  } catch (const std::system_error& error) {
    if (!diloco::is_storage_failure(error)) throw;
    if (std::has_single_bit(++refusals_)) {
      spdlog::error(
          "{} was not saved: {} ({} times in a row). Training goes on; what was saved before "
          "stays, "
          "and it is tried again when it is due. Make room or repair the disk",
          what_, error.what(), refusals_);
    }
    return false;
  }
  if (refusals_ > 0) spdlog::info("{} is saved again, after {} refusals", what_, refusals_);
  refusals_ = 0;
  return true;
}

}  // namespace causeway::intra
