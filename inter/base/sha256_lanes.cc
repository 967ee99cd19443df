#include "inter/base/sha256_lanes.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace causeway::inter {
namespace {

constexpr std::size_t kBlockBytes = 64;

Sha256Hash hash_of(const Sha256State& state) {
  Sha256Hash hash;
  for (unsigned i = 0; i < hash.size(); ++i)
    hash[i] = static_cast<std::uint8_t>(state.words[i / 4] >> (24 - 8 * (i % 4)));
  return hash;
}

}  // namespace

std::span<const Sha256Lanes> sha256_lanes() {
  static const std::vector<Sha256Lanes> all = [] {
    std::vector<Sha256Lanes> here;
#if defined(__x86_64__)
    for (const auto& lanes : {Sha256Lanes{16, sha256_sixteen_lanes()}, {2, sha256_two_lanes()}})
      if (lanes.add_blocks != nullptr) here.push_back(lanes);
#endif
    return here;
  }();
  return all;
}

// The tag stands before the bytes, so that each block but the first begins a byte before a multiple
// of 64 of them, and the last byte is in a block of its own.
void hash_tagged(const Sha256Lanes& lanes, std::byte tag, std::size_t size,
                 const std::byte* const* contents, Sha256Hash* const* hashes) {
  Sha256State states[kSha256LanesMax];
  std::byte own[kSha256LanesMax][kBlockBytes];
  const std::byte* from[kSha256LanesMax];
  for (std::size_t i = 0; i < lanes.count; ++i) {
    from[i] = own[i];
    own[i][0] = tag;
    std::memcpy(own[i] + 1, contents[i], kBlockBytes - 1);
  }
  lanes.add_blocks(states, from, 1);
  for (std::size_t i = 0; i < lanes.count; ++i) from[i] = contents[i] + kBlockBytes - 1;
  lanes.add_blocks(states, from, size / kBlockBytes - 1);
  const std::uint64_t bits = 8 * (1 + std::uint64_t{size});
  for (std::size_t i = 0; i < lanes.count; ++i) {
    from[i] = own[i];
    std::memset(own[i], 0, kBlockBytes);
    own[i][0] = contents[i][size - 1];
    own[i][1] = std::byte{0x80};
    for (unsigned byte = 0; byte < sizeof(bits); ++byte)
      own[i][kBlockBytes - 1 - byte] = std::byte{static_cast<std::uint8_t>(bits >> 8 * byte)};
  }
  lanes.add_blocks(states, from, 1);
  for (std::size_t i = 0; i < lanes.count; ++i) *hashes[i] = hash_of(states[i]);
}

}  // namespace causeway::inter
