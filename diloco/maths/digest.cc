#include "diloco/maths/digest.h"

#include <openssl/evp.h>

#include <bit>
#include <cassert>
#include <initializer_list>
#include <memory>
#include <new>

#include "inter/base/hex.h"

namespace causeway::diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are over little-endian floats");

constexpr std::byte kLeafTag{
    0x00};  // Part of the format: do not renumber. Two tags, so that no leaf can
constexpr std::byte kInnerTag{0x01};  // be passed off as an inner node (RFC 6962, section 2.1).

// One SHA-256 context reused for many digests: looking up the algorithm costs as much as hashing a
// leaf.
class Sha256 {
 public:
  Sha256() : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {
    if (!algorithm_ || !context_) throw std::bad_alloc();
  }

  Digest operator()(std::initializer_list<std::span<const std::byte>> parts) {
    Digest digest;
    bool done = EVP_DigestInit_ex2(context_.get(), algorithm_.get(), nullptr) == 1;
    for (const std::span<const std::byte> part : parts) {
      done = done && EVP_DigestUpdate(context_.get(), part.data(), part.size()) == 1;
    }
    done = done && EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1;
    assert(done);
    return digest;
  }

 private:
  struct Free {
    void operator()(EVP_MD* algorithm) const { EVP_MD_free(algorithm); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD, Free> algorithm_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

Digest sha256(std::span<const std::byte> bytes) {
  return Sha256()({bytes});
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  return inter::hex(bytes);
}

std::vector<Digest> merkle_leaves(std::span<const float> values) {
  assert(values.size() % kLeafElements == 0);
  Sha256 hash;
  std::vector<Digest> leaves;
  leaves.reserve(values.size() / kLeafElements);
  for (std::size_t begin = 0; begin < values.size(); begin += kLeafElements) {
    leaves.push_back(hash({{&kLeafTag, 1}, std::as_bytes(values.subspan(begin, kLeafElements))}));
  }
  return leaves;
}

Digest merkle_root(std::span<const Digest> leaves) {
  if (leaves.empty()) return sha256({});
  Sha256 hash;
  std::vector<Digest> level(leaves.begin(), leaves.end());
  while (level.size() > 1) {
    const std::size_t pairs = level.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      level[i] = hash({{&kInnerTag, 1},
                       std::as_bytes(std::span(level[2 * i])),
                       std::as_bytes(std::span(level[2 * i + 1]))});
    }
    if (level.size() % 2 == 1) level[pairs] = level.back();
    level.resize(pairs + level.size() % 2);
  }
  return level.front();
}

Digest state_digest(const Digest& anchor_root, const Digest& momentum_root) {
  return Sha256()({std::as_bytes(std::span(anchor_root)), std::as_bytes(std::span(momentum_root))});
}

}  // namespace causeway::diloco
