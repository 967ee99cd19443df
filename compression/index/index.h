// Index formats: the ascending positions of the kept elements of one chunk to bytes and back. A new
// one is one file and one line in the table of index.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compression/base/codec.h"
#include "compression/base/spec.h"

namespace causeway::compression {

class IndexFormat {
 public:
  virtual ~IndexFormat() = default;

  virtual std::string name() const = 0;

  // The fewest and the most bytes that `count` positions (1 to kChunk, here and below) take.
  virtual std::size_t bytes_min(std::size_t count) const = 0;
  virtual std::size_t bytes_max(std::size_t count) const { return bytes_min(count); }
  // False if bytes_min is bytes_max for every count.
  virtual bool bytes_vary() const { return false; }

  // `positions`: strictly ascending, below kChunk. `out`: bytes_max() zeros. Returns the bytes
  // used.
  virtual std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const = 0;

  // Untrusted bytes, between bytes_min and bytes_max of them. False unless they are exactly what
  // encode() writes for some positions.
  virtual bool decode(std::span<const std::byte> bytes,
                      std::span<std::uint16_t> positions) const = 0;
};

// Throws Errc::bad_spec if the setting `index` names none.
std::unique_ptr<IndexFormat> make_index(Spec& spec, const std::string& otherwise);

// The index formats behind the table of index.cc.
std::unique_ptr<IndexFormat> make_elias_fano();
std::unique_ptr<IndexFormat> make_rice();
std::unique_ptr<IndexFormat> make_packed_12();
std::unique_ptr<IndexFormat> make_bitmap();
std::unique_ptr<IndexFormat> make_raw();

}  // namespace causeway::compression
