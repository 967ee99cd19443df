#include "inter/base/checksum.h"

#include <xxhash.h>

namespace causeway::inter {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  const std::uint64_t value = XXH3_64bits(bytes.data(), bytes.size());
  return value == 0 ? 1 : value;
}

}  // namespace causeway::inter
