#include "inter/base/accept.h"

#include <spdlog/spdlog.h>

namespace causeway::inter {

void log_cannot_accept(const std::string& where, const std::error_code& error, LogThrottle& log) {
  if (const auto times = log.count(error.message())) {
    spdlog::error("{}: cannot accept: {}{}", where, error.message(), times_seen(times));
  }
}

}  // namespace causeway::inter
