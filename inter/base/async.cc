#include "inter/base/async.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace causeway::inter {

void log_cannot_accept(const std::string& where, const std::error_code& error, LogThrottle& log) {
  if (const auto more = log.note(error.message()))
    spdlog::error("{}: cannot accept: {}{}", where, error.message(), *more);
}

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + address + "]" : address,
                     endpoint.port());
}

}  // namespace causeway::inter
