// libspdlog is not built with TSan, which does not see the guard of the registry that is made at
// first use. Made here, before any thread, it needs none.
#include <spdlog/spdlog.h>

namespace {

[[maybe_unused]] const auto* const kLogger = spdlog::default_logger_raw();

}  // namespace
