// How long a process waits at its start for what may come by itself.
#pragma once

#include <cstdint>

#include <CLI/CLI.hpp>

#include "apps/flag_range.h"

namespace causeway::apps {

inline void add_start_wait(CLI::App& command, std::uint32_t& seconds) {
  command
      .add_option("--start-wait", seconds,
                  "How long to wait at the start for what may come by itself: a port in use, an "
                  "address, a name server, certificates, a disk; then it ends with exit code 75")
      ->check(number_from(0, 86'400))
      ->type_name("SECONDS")
      ->capture_default_str();
}

}  // namespace causeway::apps
