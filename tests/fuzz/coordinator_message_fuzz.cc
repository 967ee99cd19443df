// Any bytes at all as a coordinator's message or greeting, and as the parts that come from disk
// and from workers.
#include <cstdint>
#include <string>

#include "diloco/log/messages.h"
#include "tests/fuzz/round_trip.h"

using namespace causeway::diloco;

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
