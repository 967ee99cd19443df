// A group of lanes (compression/cuda/chunk_feedback.h) that one thread plays in turn, forwards or
// backwards: what depends on the order of the lanes within one operation, and so is a race on a
// device, differs between the two.
#pragma once

#include <array>
#include <cstdint>

namespace causeway::compression::cuda {

template <unsigned kLaneCount>
class SerialGroup {
 public:
  static constexpr unsigned kLanes = kLaneCount;

  template <typename T>
  class PerLane {
   public:
    constexpr T& of(unsigned lane) { return values_[lane]; }
    constexpr const T& of(unsigned lane) const { return values_[lane]; }

   private:
    std::array<T, kLanes> values_{};
  };

  explicit constexpr SerialGroup(bool backwards) : backwards_(backwards) {}

  template <typename F>
  constexpr void each(const F& f) const {
    for (unsigned i = 0; i < kLanes; ++i) f(backwards_ ? kLanes - 1 - i : i);
  }
  template <typename F>
  constexpr bool any(const F& f) const {
    return count(f) > 0;
  }
  template <typename F>
  constexpr std::uint32_t count(const F& f) const {
    return sum([&](unsigned lane) -> std::uint32_t { return f(lane) ? 1 : 0; });
  }
  template <typename F>
  constexpr auto sum(const F& f) const {
    decltype(f(0U)) total = 0;
    each([&](unsigned lane) { total += f(lane); });
    return total;
  }
  template <typename F>
  constexpr auto max(const F& f) const {
    auto largest = f(0U);
    each([&](unsigned lane) {
      const auto own = f(lane);
      largest = own > largest ? own : largest;
    });
    return largest;
  }
  template <typename F>
  constexpr PerLane<std::uint32_t> exclusive_sum(const F& f) const {
    PerLane<std::uint32_t> own;
    each([&](unsigned lane) { own.of(lane) = f(lane); });
    PerLane<std::uint32_t> sums;
    for (unsigned lane = 1; lane < kLanes; ++lane) {
      sums.of(lane) = sums.of(lane - 1) + own.of(lane - 1);
    }
    return sums;
  }
  template <typename F>
  constexpr void ballots(std::uint32_t* words, unsigned rows, const F& f) const {
    for (unsigned row = 0; row < rows; ++row) {
      each([&](unsigned lane) {
        const std::uint32_t bit = std::uint32_t{1} << lane % 32;
        std::uint32_t& word = words[lane / 32 * rows + row];
        word = f(lane, row) ? word | bit : word & ~bit;
      });
    }
  }
  static constexpr void set_bits(std::uint32_t& word, std::uint32_t mask) { word |= mask; }

 private:
  bool backwards_;
};

}  // namespace causeway::compression::cuda
