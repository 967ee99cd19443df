// diloco's error category.
#pragma once

#include <string>
#include <system_error>

namespace causeway::diloco {

enum class Errc {
  malformed = 1,     // bytes of a peer, a worker or the ledger are not what they must be
  coordinator_lost,  // the worker's session with its coordinator ended
  lineage,           // state of another run, or missing state
  config_mismatch,   // regions do not share one configuration
  divergence,        // a state digest differs from the others'
  left_out,          // the region takes no part in the run any more
};
std::error_code make_error_code(Errc code);

[[noreturn]] void throw_lost(const std::string& why);  // Errc::coordinator_lost

}  // namespace causeway::diloco

template <>
struct std::is_error_code_enum<causeway::diloco::Errc> : std::true_type {};

namespace causeway::diloco {

// Of the disk, not of the program: worth trying again when somebody has looked after it.
bool is_storage_failure(const std::system_error& error);

}  // namespace causeway::diloco
