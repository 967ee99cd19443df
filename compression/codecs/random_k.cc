// randk: k positions of each chunk that the seed, the round and the place decide. They are the same
// in every region and need no bytes; an encoding begins with the round and the place instead.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "compression/base/bytes.h"
#include "compression/base/codec.h"
#include "compression/base/random.h"
#include "compression/codecs/make_codec.h"

namespace causeway::compression {
namespace {

constexpr std::size_t kRandomHeadBytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);

// Words 0, 1, ... of one chunk's stream.
class Words {
 public:
  Words(std::uint64_t seed, std::uint32_t round, std::uint64_t chunk)
      : key_{low_word(seed), high_word(seed)},
        counter_{0, round, low_word(chunk), high_word(chunk)} {}

  // Uniform below `bound`, up to bound / 2^32.
  std::size_t below(std::size_t bound) {
    if (used_ == block_.size()) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return std::uint64_t{block_[used_++]} * bound >> 32;
  }

 private:
  PhiloxKey key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  std::size_t used_ = PhiloxBlock{}.size();
};

// Every set of positions.size() is equally likely: Floyd's algorithm (Bentley and Floyd, CACM
// 30(9), 1987).
void draw_positions(Words words, std::span<std::uint16_t> positions) {
  std::array<std::uint64_t, kChunk / 64> chosen{};
  const auto choose = [&](std::size_t i) {
    const std::uint64_t bit = std::uint64_t{1} << i % 64;
    const bool fresh = (chosen[i / 64] & bit) == 0;
    chosen[i / 64] |= bit;
    return fresh;
  };
  for (std::size_t last = kChunk - positions.size(); last < kChunk; ++last) {
    if (!choose(words.below(last + 1))) choose(last);
  }
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < kChunk; begin += 64) {
    for (std::uint64_t word = chosen[begin / 64]; word != 0; word &= word - 1) {
      positions[count++] =
          static_cast<std::uint16_t>(begin + static_cast<std::size_t>(std::countr_zero(word)));
    }
  }
  assert(count == positions.size());
}

class RandomK final : public Codec {
 public:
  RandomK(std::size_t k, std::uint64_t seed, std::unique_ptr<ValueFormat> value)
      : k_(k), seed_(seed), value_(std::move(value)) {}

  std::string spec() const override {
    return "randk:k=" + std::to_string(k_) + ",seed=" + std::to_string(seed_) +
           ",value=" + value_->spec();
  }
  bool is_sparse() const override { return true; }
  std::optional<std::size_t> chunk_bytes() const override { return {}; }
  std::size_t encoded_bytes_max(std::size_t count) const override {
    assert(count % kChunk == 0);
    return count == 0 ? 0 : kRandomHeadBytes + count / kChunk * value_->bytes(k_);
  }
  void decode_add(std::span<const std::byte> bytes, float weight,
                  std::span<float> accumulator) const override;

 private:
  void append(std::span<const float> input, std::span<float> decoded, std::vector<std::byte>& out,
              const EncodeKey& key) const override;

  std::size_t k_;
  std::uint64_t seed_;
  std::unique_ptr<ValueFormat> value_;
};

void RandomK::append(std::span<const float> input, std::span<float> decoded,
                     std::vector<std::byte>& out, const EncodeKey& key) const {
  const std::size_t before = out.size();
  out.resize(before + encoded_bytes_max(input.size()));
  std::byte* to = out.data() + before;
  const std::uint64_t first_chunk = key.first_element / kChunk;
  store(to, key.round);
  store(to + sizeof key.round, first_chunk);
  to += kRandomHeadBytes;
  std::fill(decoded.begin(), decoded.end(), 0.0F);
  std::array<std::uint16_t, kChunk> position_buffer;
  std::array<float, kChunk> value_buffer;
  const auto positions = std::span(position_buffer).first(k_);
  const auto values = std::span(value_buffer).first(k_);
  EncodeKey chunk_key = key;
  for (std::size_t begin = 0; begin < input.size(); begin += kChunk) {
    draw_positions(Words(seed_, key.round, chunk_key.first_element / kChunk), positions);
    for (std::size_t i = 0; i < k_; ++i) values[i] = input[begin + positions[i]];
    value_->encode(values, values, to, chunk_key);
    for (std::size_t i = 0; i < k_; ++i) decoded[begin + positions[i]] = values[i];
    to += value_->bytes(k_);
    chunk_key.first_element += kChunk;
  }
}

void RandomK::decode_add(std::span<const std::byte> bytes, float weight,
                         std::span<float> accumulator) const {
  const std::size_t needed = encoded_bytes_max(accumulator.size());
  if (bytes.size() != needed) {
    fail(Errc::malformed, spec() + ": " + std::to_string(bytes.size()) + " bytes where " +
                              std::to_string(needed) + " are needed");
  }
  if (accumulator.empty()) return;
  const auto round = load<std::uint32_t>(bytes.data());
  const auto first_chunk = load<std::uint64_t>(bytes.data() + sizeof round);
  const std::byte* from = bytes.data() + kRandomHeadBytes;
  std::array<std::uint16_t, kChunk> position_buffer;
  std::array<float, kChunk> value_buffer;
  const auto positions = std::span(position_buffer).first(k_);
  const auto values = std::span(value_buffer).first(k_);
  for (std::size_t chunk = 0; chunk < accumulator.size() / kChunk; ++chunk) {
    if (!value_->decode(from, values)) fail(Errc::malformed, spec() + ": values");
    draw_positions(Words(seed_, round, first_chunk + chunk), positions);
    for (std::size_t i = 0; i < k_; ++i) {
      accumulator[chunk * kChunk + positions[i]] += weight * values[i];
    }
    from += value_->bytes(k_);
  }
}

}  // namespace

std::unique_ptr<Codec> make_random_k(std::size_t k, std::uint64_t seed,
                                     std::unique_ptr<ValueFormat> value) {
  return std::make_unique<RandomK>(k, seed, std::move(value));
}

}  // namespace causeway::compression
