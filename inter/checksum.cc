#include "inter/checksum.h"

#include <array>
#include <cassert>
#include <cstring>
#include <memory>

#include "inter/openssl.h"

namespace causeway::inter {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  static constexpr std::array<unsigned char, 16> kZeros{};
  const std::unique_ptr<EVP_CIPHER_CTX, OpensslDeleter<EVP_CIPHER_CTX_free>> gcm(
      EVP_CIPHER_CTX_new());
  std::array<unsigned char, 16> tag{};
  int length = 0;
  const bool done =
      gcm != nullptr &&
      EVP_EncryptInit_ex(gcm.get(), EVP_aes_128_gcm(), nullptr, kZeros.data(), kZeros.data()) ==
          1 &&
      EVP_EncryptUpdate(gcm.get(), nullptr, &length,
                        reinterpret_cast<const unsigned char*>(bytes.data()),
                        static_cast<int>(bytes.size())) == 1 &&
      EVP_EncryptFinal_ex(gcm.get(), tag.data(), &length) == 1 &&
      EVP_CIPHER_CTX_ctrl(gcm.get(), EVP_CTRL_GCM_GET_TAG, tag.size(), tag.data()) == 1;
  assert(done);
  std::uint64_t value = 0;
  std::memcpy(&value, tag.data(), sizeof value);
  return value == 0 ? 1 : value;
}

}  // namespace causeway::inter
