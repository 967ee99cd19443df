// What Muon's step (muon.h) is on every device: which matrices, together with which others, and
// by what numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "intra/base/adamw.h"

namespace causeway::intra {

// (a, b, c) of X <- a X + (b A + c A A) X, once for each (MuLoCo's code; they come from the Polar
// Express, arXiv 2505.16932): the smallest singular values grow fastest at first, and all end near
// 1.
inline constexpr float kMuonPolynomials[5][3] = {{4.0848F, -6.8946F, 2.9270F},
                                                 {3.9505F, -6.3029F, 2.6377F},
                                                 {3.7418F, -5.5913F, 2.3037F},
                                                 {2.8769F, -3.1427F, 1.2046F},
                                                 {2.8366F, -3.0525F, 1.2012F}};

// W <- decay W - rate orthogonal(M), for a matrix of this shape.
struct MuonFactors {
  float decay = 0, rate = 0;
};
MuonFactors muon_factors(const InnerOptions& options, float lr, std::int64_t out, std::int64_t in);

// Those of one shape side by side, so that they are stepped together.
std::vector<MuonMatrix> muon_matrices_by_shape(const InnerOptions& options,
                                               const diloco::Layout& layout);
// The elements of each, ascending.
std::vector<Range> muon_elements(const InnerOptions& options, const diloco::Layout& layout);
// How many of `matrices`, the first ones, are stepped together: of one shape, and at most `most`,
// or one if that is less.
std::size_t muon_batch(std::span<const MuonMatrix> matrices, std::int64_t most);

bool lies_in(std::span<const Range> parts, const Range& range);

}  // namespace causeway::intra
