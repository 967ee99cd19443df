#include "compression/value/packing.h"

namespace causeway::compression {

void Nibbles::pack(std::span<const std::uint8_t> codes, std::byte* out) {
  const std::size_t pairs = codes.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    out[i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
  }
  if (codes.size() % 2 != 0) out[pairs] = static_cast<std::byte>(codes.back());
}

bool Nibbles::unpack(const std::byte* bytes, std::span<std::uint8_t> codes) {
  const std::size_t pairs = codes.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(bytes[i]);
    codes[2 * i] = byte & 0xF;
    codes[2 * i + 1] = byte >> 4;
  }
  if (codes.size() % 2 == 0) return true;
  codes.back() = std::to_integer<std::uint8_t>(bytes[pairs]);
  return codes.back() <= 0xF;
}

void BaseThree::pack(std::span<const std::uint8_t> codes, std::byte* out) {
  for (std::size_t begin = 0; begin < codes.size(); begin += kPerByte) {
    unsigned byte = 0;
    unsigned place = 1;
    for (std::size_t i = begin; i < begin + kPerByte && i < codes.size(); ++i, place *= 3) {
      byte += codes[i] * place;
    }
    *out++ = static_cast<std::byte>(byte);
  }
}

bool BaseThree::unpack(const std::byte* bytes, std::span<std::uint8_t> codes) {
  for (std::size_t begin = 0; begin < codes.size(); begin += kPerByte) {
    auto byte = std::to_integer<unsigned>(*bytes++);
    for (std::size_t i = begin; i < begin + kPerByte && i < codes.size(); ++i, byte /= 3) {
      codes[i] = static_cast<std::uint8_t>(byte % 3);
    }
    if (byte != 0) return false;
  }
  return true;
}

}  // namespace causeway::compression
