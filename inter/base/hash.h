// SHA-256, the only one of ours that runs on a CPU, and a fast checksum for accidents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "inter/base/openssl.h"

namespace causeway::inter {

// A fast checksum against torn and damaged files.
// XXH3. For accidents, not attackers. Never 0.
std::uint64_t checksum(std::span<const std::byte> bytes);

// SHA-256, the only one of ours that runs on a CPU.
using Sha256Hash = std::array<std::uint8_t, 32>;

// Of a stream, or of one after the other: finish() begins anew. For many short ones keep the
// object, as looking up the algorithm costs as much as hashing a few kilobytes.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  Sha256Hash finish();

 private:
  void begin();

  AlgorithmPtr algorithm_;
  DigestPtr digest_;
};

}  // namespace causeway::inter
