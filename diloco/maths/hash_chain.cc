#include "diloco/maths/hash_chain.h"

#include <span>

namespace causeway::diloco {

Digest chain_start(const std::string& run_id) {
  return sha256(std::as_bytes(std::span(run_id)));
}

Digest chain_next(const Digest& previous, const std::string& content) {
  std::string bytes(reinterpret_cast<const char*>(previous.data()), previous.size());
  bytes += content;
  return sha256(std::as_bytes(std::span(bytes)));
}

}  // namespace causeway::diloco
