#include "inter/frame/blob_chunks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <span>

#include <fmt/format.h>

#include "inter/base/text.h"
#include "inter/base/wire.h"

namespace causeway::inter {

std::string to_string(const BlobId& id) {
  const std::string name = hex(std::span(id.hash).first(4));
  const auto bytes = static_cast<double>(id.size_bytes);
  if (id.size_bytes < 1000) return fmt::format("{} ({} bytes)", name, id.size_bytes);
  if (bytes < 1e6) return fmt::format("{} ({:.1f} kB)", name, bytes / 1e3);
  return fmt::format("{} ({:.1f} MB)", name, bytes / 1e6);
}

ChunkMap::ChunkMap(std::uint64_t chunks, bool all)
    : size_(chunks), count_(all ? chunks : 0), words_(chunks / 64 + 1, all ? ~0ULL : 0) {
  words_.back() &= (1ULL << (chunks % 64)) - 1;
}

std::optional<ChunkMap> ChunkMap::parse(std::uint64_t chunks, std::span<const std::byte> bytes) {
  if (bytes.size() != byte_count(chunks)) return std::nullopt;
  ChunkMap map(chunks);
  for (std::uint64_t& word : map.words_) {
    std::array<std::byte, sizeof word> part{};  // the last one lacks bytes
    const auto there = bytes.first(std::min(bytes.size(), part.size()));
    std::ranges::copy(there, part.begin());
    word = from_little_endian<std::uint64_t>(part);
    bytes = bytes.subspan(there.size());
  }
  if (map.words_.back() >> (chunks % 64) != 0) return std::nullopt;
  for (const std::uint64_t word : map.words_)
    map.count_ += static_cast<std::uint64_t>(std::popcount(word));
  return map;
}

std::vector<std::byte> ChunkMap::bytes() const {
  std::vector<std::byte> bytes;
  for (const std::uint64_t word : words_) {
    const auto part = to_little_endian(word);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  bytes.resize(byte_count(size_));
  return bytes;
}

void ChunkMap::insert(std::uint64_t chunk) {
  assert(chunk < size_);
  count_ += has(chunk) ? 0 : 1;
  words_[chunk / 64] |= 1ULL << (chunk % 64);
}

void ChunkMap::erase(std::uint64_t chunk) {
  assert(chunk < size_);
  count_ -= has(chunk) ? 1 : 0;
  words_[chunk / 64] &= ~(1ULL << (chunk % 64));
}

ChunkMap ChunkMap::inverse() const {
  ChunkMap map(size_, true);
  for (std::size_t i = 0; i < words_.size(); ++i) map.words_[i] &= ~words_[i];
  map.count_ = size_ - count_;
  return map;
}

std::optional<std::uint64_t> ChunkMap::next(std::uint64_t start, Order order) const {
  if (none()) return std::nullopt;
  if (order == Order::ascending) {
    const auto found = next_up(start, size_);
    return found ? found : next_up(0, start);
  }
  const auto found = next_down(start);
  return found ? found : next_down(size_ - 1);
}

std::optional<std::uint64_t> ChunkMap::next_up(std::uint64_t begin, std::uint64_t end) const {
  for (std::uint64_t word = begin / 64; word * 64 < end; ++word) {
    const std::uint64_t mask = word == begin / 64 ? ~0ULL << (begin % 64) : ~0ULL;
    if (const std::uint64_t bits = words_[word] & mask; bits != 0) {
      const std::uint64_t chunk = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      return chunk < end ? std::optional(chunk) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ChunkMap::next_down(std::uint64_t last) const {
  for (std::uint64_t word = last / 64 + 1; word-- > 0;) {
    const std::uint64_t mask = word == last / 64 ? ~0ULL >> (63 - last % 64) : ~0ULL;
    if (const std::uint64_t bits = words_[word] & mask; bits != 0)
      return word * 64 + 63 - static_cast<std::uint64_t>(std::countl_zero(bits));
  }
  return std::nullopt;
}

}  // namespace causeway::inter
