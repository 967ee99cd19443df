#include "intra/collective/bf16_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "intra/base/bfloat16.h"

namespace causeway::intra {
namespace {

std::vector<std::size_t> words_of(std::span<const std::size_t> elements) {
  std::vector<std::size_t> words(elements.begin(), elements.end());
  for (std::size_t& count : words) {
    assert(count % 2 == 0);
    count /= 2;
  }
  return words;
}

}  // namespace

Bf16Room bf16_room(const GradientBuckets& buckets, GradientReducer::Result result, std::size_t rank,
                   std::size_t ranks) {
  Bf16Room room;
  for (std::size_t index = 0; index < buckets.all().size(); ++index) {
    const std::size_t elements = buckets.all()[index].count();
    const auto counts = result == GradientReducer::Result::everywhere
                            ? even_parts(elements, ranks)
                            : buckets.counts(index, ranks);
    room.own = std::max(room.own, elements / 2);
    room.received = std::max(room.received, ranks * (counts[rank] / 2));
  }
  return room;
}

std::span<const float> Bf16Sums::exchange(std::span<const float> values,
                                          std::span<const std::size_t> words) {
  const auto own = own_.first(values.size() / 2);
  const auto received = received_.first(size() * words[rank()]);
  round(values, own);
  group().exchange_parts(own, words, received);
  return received;
}

void Bf16Sums::all_reduce_sum(std::span<float> values) {
  if (values.empty()) return;
  const auto words = words_of(even_parts(values.size(), size()));
  const auto received = exchange(values, words);
  const auto whole = own_.first(values.size() / 2);
  add_and_round(received, whole.subspan(begin_of_part(words, rank()), words[rank()]));
  group().all_gather_parts(whole, words);
  add(whole, values);
}

void Bf16Sums::reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) {
  if (values.empty()) return;
  const auto received = exchange(values, words_of(counts));
  add(received, values.subspan(begin_of_part(counts, rank()), counts[rank()]));
}

namespace {

// In blocks that stay in the cache while every rank's part is added.
constexpr std::size_t kBlockWords = 2048;

class HostBf16Sums final : public Bf16Sums {
 public:
  HostBf16Sums(Collective& group, std::vector<float> memory, const Bf16Room& room)
      : Bf16Sums(group, std::span(memory).first(room.own), std::span(memory).last(room.received)),
        memory_(std::move(memory)) {}

 protected:
  void round(std::span<const float> values, std::span<float> words) override {
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = std::bit_cast<float>(bf16_word(values[2 * i], values[2 * i + 1]));
  }

  void add(std::span<const float> parts, std::span<float> sum) override {
    add_blocks(parts, sum.size() / 2, [&](std::size_t begin, std::span<const float> block) {
      std::ranges::copy(block, sum.begin() + static_cast<std::ptrdiff_t>(2 * begin));
    });
  }

  void add_and_round(std::span<const float> parts, std::span<float> words) override {
    add_blocks(parts, words.size(), [&](std::size_t begin, std::span<const float> block) {
      round(block, words.subspan(begin, block.size() / 2));
    });
  }

 private:
  // take(first word, their sums), block by block of parts of so many words.
  template <typename Take>
  void add_blocks(std::span<const float> parts, std::size_t words, const Take& take) {
    for (std::size_t begin = 0; begin < words; begin += kBlockWords) {
      const std::size_t count = std::min(kBlockWords, words - begin);
      widen(parts.subspan(begin, count));
      for (std::size_t next = begin + words; next < parts.size(); next += words)
        add_to_block(parts.subspan(next, count));
      take(begin, std::span(block_).first(2 * count));
    }
  }
  void widen(std::span<const float> words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto word = std::bit_cast<std::uint32_t>(words[i]);
      block_[2 * i] = first_of_word(word);
      block_[2 * i + 1] = second_of_word(word);
    }
  }
  void add_to_block(std::span<const float> words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto word = std::bit_cast<std::uint32_t>(words[i]);
      block_[2 * i] += first_of_word(word);
      block_[2 * i + 1] += second_of_word(word);
    }
  }

  std::vector<float> memory_;
  std::array<float, 2 * kBlockWords> block_;
};

}  // namespace

std::unique_ptr<Collective> make_host_bf16_sums(Collective& group, const Bf16Room& room) {
  return std::make_unique<HostBf16Sums>(group, std::vector<float>(room.words()), room);
}

}  // namespace causeway::intra
