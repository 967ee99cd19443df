// Grids: a few levels, zero among them; a value is the level nearest to its quotient by the block's
// scale. A code is the level's place in ascending order. constexpr, so that device code may call
// the same lines.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace causeway::compression {

constexpr float next_above(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>(x < 0 ? bits - 1 : bits + 1);
}

template <typename Definition>
struct Grid {
  static constexpr auto kLevels = Definition::kLevels;
  static constexpr std::size_t kCount = kLevels.size();
  static constexpr float kTop = kLevels.back();  // the largest magnitude

  static constexpr std::uint8_t kZero = [] {
    std::uint8_t at = 0;
    while (kLevels[at] != 0.0F) ++at;
    return at;
  }();

  // The smallest quotient that goes to level j + 1 rather than to j: their middle, in fp32. A tie
  // goes to the level at an even distance from zero, which for integers is the even one.
  static constexpr auto kUp = [] {
    std::array<float, kCount - 1> up{};
    for (std::size_t j = 0; j + 1 < kCount; ++j) {
      const float middle = (kLevels[j] + kLevels[j + 1]) / 2;
      up[j] = (j + kZero) % 2 != 0 ? middle : next_above(middle);
    }
    return up;
  }();

  static constexpr std::uint8_t nearest(float quotient) {
    std::int32_t code = 0;
    for (const float up : kUp) code += quotient >= up ? 1 : 0;
    return static_cast<std::uint8_t>(code);
  }

  // One of the two levels around the quotient, with the quotient as the mean if `unit` is uniform
  // in [0, 1). Beyond the outermost levels: the outermost. (No look-up by `below`: GCC 12 makes a
  // wrong index of it where it vectorises the loop around a grid of three levels.)
  static constexpr std::uint8_t stochastic(float quotient, float unit) {
    std::int32_t below = 0;
    float low = kLevels[0];
    float high = kLevels[1];
    for (std::size_t j = 1; j + 1 < kCount; ++j) {
      const bool reached = quotient >= kLevels[j];
      below += reached ? 1 : 0;
      low = reached ? kLevels[j] : low;
      high = reached ? kLevels[j + 1] : high;
    }
    const bool up = unit < (quotient - low) / (high - low);
    return static_cast<std::uint8_t>(below + (up ? 1 : 0));
  }
};

struct Int4Definition {
  static constexpr std::array kLevels{-7.0F, -6.0F, -5.0F, -4.0F, -3.0F, -2.0F, -1.0F, 0.0F,
                                      1.0F,  2.0F,  3.0F,  4.0F,  5.0F,  6.0F,  7.0F};
};

// Quantiles of the normal distribution (QLoRA, arXiv 2305.14314; digits of bitsandbytes).
struct Nf4Definition {
  static constexpr std::array kLevels{-1.0F,
                                      -0.6961928009986877F,
                                      -0.5250730514526367F,
                                      -0.39491748809814453F,
                                      -0.28444138169288635F,
                                      -0.18477343022823334F,
                                      -0.09105003625154495F,
                                      0.0F,
                                      0.07958029955625534F,
                                      0.16093020141124725F,
                                      0.24611230194568634F,
                                      0.33791524171829224F,
                                      0.44070982933044434F,
                                      0.5626170039176941F,
                                      0.7229568362236023F,
                                      1.0F};
};

// Two exponent bits, one of mantissa (OCP MX).
struct E2M1Definition {
  static constexpr std::array kLevels{-6.0F, -4.0F, -3.0F, -2.0F, -1.5F, -1.0F, -0.5F, 0.0F,
                                      0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F};
};

// Three exponent bits, no mantissa.
struct E3M0Definition {
  static constexpr std::array kLevels{-16.0F, -8.0F, -4.0F, -2.0F, -1.0F, -0.5F, -0.25F, 0.0F,
                                      0.25F,  0.5F,  1.0F,  2.0F,  4.0F,  8.0F,  16.0F};
};

struct TernaryDefinition {
  static constexpr std::array kLevels{-1.0F, 0.0F, 1.0F};
};

using Int4Grid = Grid<Int4Definition>;
using Nf4Grid = Grid<Nf4Definition>;
using E2M1Grid = Grid<E2M1Definition>;
using E3M0Grid = Grid<E3M0Definition>;
using TernaryGrid = Grid<TernaryDefinition>;

}  // namespace causeway::compression
