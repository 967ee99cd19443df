// Text from the trained model, for the report.
#pragma once

#include <cstdint>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "apps/run/simulate/region_processes.h"

namespace causeway::run {

// What `causeway generate` makes of the final checkpoint, of so many tokens. Empty if there is
// none: data without a tokenizer gives no text, and neither does a program's model.
asio::awaitable<std::string> sample_text(asio::any_io_executor executor, const Launch& launch,
                                         std::uint32_t tokens);

}  // namespace causeway::run
