#include "intra/base/safetensors_format.h"

#include <cstdint>
#include <span>

#include "diloco/maths/digest.h"

namespace causeway::intra {

std::optional<HeaderHash> header_hash(std::string text) {
  const std::string key = '"' + std::string(kSafetensorsHeaderKey) + "\":\"";
  const std::size_t digits = 2 * sizeof(diloco::Digest);
  const std::size_t found = text.find(key);
  if (found == std::string::npos || text.size() - found < key.size() + digits) return std::nullopt;
  HeaderHash hash{.place = found + key.size(), .said = {}, .computed = {}};
  hash.said = text.substr(hash.place, digits);
  text.replace(hash.place, digits, digits, '0');
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  hash.computed = diloco::to_hex(diloco::sha256(std::as_bytes(std::span(text))));
  return hash;
}

}  // namespace causeway::intra
