// Any bytes at all as a coordinator's message or greeting, and as the parts that come from disk
// and from workers. They may only be refused with std::system_error, and a message that is
// accepted must come back the same from a second trip: nothing of it is lost or read twice.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "diloco/log/messages.h"

namespace {

using namespace causeway::diloco;

template <typename Parse>
void try_round_trip(const std::string& bytes, const Parse& parse) {
  try {
    const std::string once = serialize(parse(bytes));
    if (serialize(parse(once)) != once) std::abort();
  } catch (const std::system_error&) {
  }
}

}  // namespace

// The first byte says what the rest is taken for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      try_round_trip(bytes, parse_message);
      break;
    case 1:
      try_round_trip(bytes, parse_contribution);
      break;
    default:
      try_round_trip(bytes, parse_commit_record);
      break;
  }
  return 0;
}
