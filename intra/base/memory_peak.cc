#include "intra/base/memory_peak.h"

#include <sys/resource.h>

namespace causeway::intra {

std::uint64_t memory_peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace causeway::intra
