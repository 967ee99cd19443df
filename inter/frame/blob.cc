#include "inter/frame/blob.h"

#include <cstdio>
#include <span>

#include "inter/base/hex.h"

namespace causeway::inter {

std::string to_string(const BlobId& id) {
  char size[32];
  const auto bytes = static_cast<double>(id.size_bytes);
  if (id.size_bytes < 1000) {
    std::snprintf(size, sizeof size, "%u bytes", static_cast<unsigned>(id.size_bytes));
  } else if (bytes < 1e6) {
    std::snprintf(size, sizeof size, "%.1f kB", bytes / 1e3);
  } else {
    std::snprintf(size, sizeof size, "%.1f MB", bytes / 1e6);
  }
  return hex(std::span(id.hash).first(4)) + " (" + size + ")";
}

}  // namespace causeway::inter
