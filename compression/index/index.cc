#include "compression/index/index.h"

#include <array>
#include <cassert>

#include "compression/base/bytes.h"
#include "compression/base/spec.h"

namespace causeway::compression {
namespace {

struct IndexEntry {
  const char* name;
  std::unique_ptr<IndexFormat> (*make)();
};

constexpr std::array kIndexFormats{
    IndexEntry{"elias-fano", make_elias_fano},
    IndexEntry{"rice", make_rice},
    IndexEntry{"packed-12", make_packed_12},
    IndexEntry{"bitmap", make_bitmap},
    IndexEntry{"raw", make_raw},
};

}  // namespace

std::unique_ptr<IndexFormat> make_index(Spec& spec, const std::string& otherwise) {
  const std::string name = spec.take_text("index", otherwise);
  for (const IndexEntry& entry : kIndexFormats) {
    if (name == entry.name) return entry.make();
  }
  spec.refuse("unknown index format \"" + name + "\"; allowed: " + names_in(kIndexFormats));
}

// Positions of one width: 32 bits (raw, the reference), 12 bits (packed-12), or one bit for each
// element of the chunk (bitmap).

namespace {

template <unsigned kWidth>
class PackedIndex final : public IndexFormat {
 public:
  explicit PackedIndex(const char* name) : name_(name) {}

  std::string name() const override { return name_; }
  std::size_t bytes_min(std::size_t count) const override { return bytes_for_bits(kWidth * count); }

  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const override {
    BitWriter writer(out);
    for (const std::uint16_t position : positions) writer.put(position, kWidth);
    writer.finish();
    return bytes_min(positions.size());
  }

  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const override {
    assert(bytes.size() == bytes_min(positions.size()));
    BitReader reader(bytes.data());
    std::uint32_t smallest = 0;  // what the next position must be at least
    for (std::uint16_t& position : positions) {
      const std::uint32_t at = reader.get(kWidth);
      if (at < smallest || at >= kChunk) return false;
      position = static_cast<std::uint16_t>(at);
      smallest = at + 1;
    }
    return reader.rest_is_zero();
  }

 private:
  std::string name_;
};

class BitmapIndex final : public IndexFormat {
 public:
  std::string name() const override { return "bitmap"; }
  std::size_t bytes_min(std::size_t) const override { return kChunk / 8; }

  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const override {
    for (const std::uint16_t position : positions) {
      out[position / 8] |= std::byte{1} << position % 8;
    }
    return kChunk / 8;
  }

  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const override {
    assert(bytes.size() == kChunk / 8);
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < kChunk; begin += 64) {
      auto word = load<std::uint64_t>(bytes.data() + begin / 8);
      for (; word != 0; word &= word - 1) {
        if (count == positions.size()) return false;
        positions[count++] =
            static_cast<std::uint16_t>(begin + static_cast<std::size_t>(std::countr_zero(word)));
      }
    }
    return count == positions.size();
  }
};

}  // namespace

std::unique_ptr<IndexFormat> make_raw() {
  return std::make_unique<PackedIndex<32>>("raw");
}

std::unique_ptr<IndexFormat> make_packed_12() {
  return std::make_unique<PackedIndex<12>>("packed-12");
}

std::unique_ptr<IndexFormat> make_bitmap() {
  return std::make_unique<BitmapIndex>();
}

}  // namespace causeway::compression
