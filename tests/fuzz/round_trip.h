// What is common to targets that take any bytes for a message.
#pragma once

#include <cstdlib>
#include <string>
#include <system_error>

namespace causeway::diloco {

// The bytes may only be refused with std::system_error. A message that is accepted must come back
// the same from a second trip: nothing of it is lost or read twice.
template <typename Parse>
void try_round_trip(const std::string& bytes, const Parse& parse) {
  try {
    const std::string once = serialize(parse(bytes));
    if (serialize(parse(once)) != once) std::abort();
  } catch (const std::system_error&) {
  }
}

}  // namespace causeway::diloco
