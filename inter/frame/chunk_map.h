// Which chunks of a blob: a set of small numbers as a bitmap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace causeway::inter {

enum class Order : std::uint8_t { ascending = 0, descending = 1 };  // values are on the wire

class ChunkMap {
 public:
  ChunkMap() = default;
  // All of `chunks` chunks, or none.
  explicit ChunkMap(std::uint64_t chunks, bool all = false);

  // The inverse of bytes(). Nothing if the length does not fit the number of chunks, or bits are
  // set beyond it.
  static std::optional<ChunkMap> parse(std::uint64_t chunks, std::span<const std::byte> bytes);
  std::vector<std::byte> bytes() const;  // bit chunk % 8 of byte chunk / 8
  static constexpr std::uint64_t byte_count(std::uint64_t chunks) {
    return chunks / 8 + (chunks % 8 != 0 ? 1 : 0);
  }

  std::uint64_t size() const { return size_; }    // of the blob, in chunks
  std::uint64_t count() const { return count_; }  // of chunks in the set
  bool all() const { return count_ == size_; }
  bool none() const { return count_ == 0; }
  bool has(std::uint64_t chunk) const { return (words_[chunk / 64] >> (chunk % 64) & 1) != 0; }
  void insert(std::uint64_t chunk);
  void erase(std::uint64_t chunk);
  ChunkMap inverse() const;

  // The next chunk in the set from `start` on, `start` included; after the end it goes on at the
  // other one.
  std::optional<std::uint64_t> next(std::uint64_t start, Order order) const;
  // How many chunks from `start` on are in the set without a gap.
  std::uint64_t run_from(std::uint64_t start) const;

 private:
  std::optional<std::uint64_t> next_up(std::uint64_t begin, std::uint64_t end) const;
  std::optional<std::uint64_t> next_down(std::uint64_t last) const;

  std::uint64_t size_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace causeway::inter
