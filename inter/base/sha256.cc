#include "inter/base/sha256.h"

#include <cassert>

namespace causeway::inter {

Sha256::Sha256() : digest_(EVP_MD_CTX_new()) {
  const bool started = digest_ && EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr) == 1;
  assert(started);
}

void Sha256::update(std::span<const std::byte> bytes) {
  const bool updated = EVP_DigestUpdate(digest_.get(), bytes.data(), bytes.size()) == 1;
  assert(updated);
}

Sha256Hash Sha256::finish() {
  Sha256Hash hash;
  unsigned size = 0;
  const bool finished = EVP_DigestFinal_ex(digest_.get(), hash.data(), &size) == 1;
  assert(finished && size == hash.size());
  return hash;
}

}  // namespace causeway::inter
