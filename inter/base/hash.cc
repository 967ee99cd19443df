#include "inter/base/hash.h"

#include <cassert>

#include <xxhash.h>

namespace causeway::inter {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  const std::uint64_t value = XXH3_64bits(bytes.data(), bytes.size());
  return value == 0 ? 1 : value;
}

Sha256::Sha256() : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), digest_(EVP_MD_CTX_new()) {
  assert(algorithm_ && digest_);
  begin();
}

void Sha256::begin() {
  const bool begun = EVP_DigestInit_ex2(digest_.get(), algorithm_.get(), nullptr) == 1;
  assert(begun);
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
  begin();
  return hash;
}

}  // namespace causeway::inter
