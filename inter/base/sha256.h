// SHA-256 of a stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "inter/base/openssl.h"

namespace causeway::inter {

using Sha256Hash = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  Sha256Hash finish();  // once

 private:
  DigestPtr digest_;
};

}  // namespace causeway::inter
