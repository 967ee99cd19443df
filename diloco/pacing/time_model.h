// How long K inner steps and their exchange take: the closed form. It is quick and leaves out
// agreement, queues and unequal regions; rehearsal.h does not.
//
//   round(K) = K x step + prepare + P x max(0, exchange - h)
//
// P exchanges of a P-th of the model each fall into K steps, and h is the compute that each of them
// may hide behind: nothing when synchronous, tau steps when streaming, all K steps when the outcome
// is applied one round late.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "diloco/maths/outer.h"

namespace causeway::diloco::tuner {

using Variant = OverlapOptions::Variant;
inline constexpr std::string_view kVariants[] = {"synchronous", "streaming", "delayed", "eager"};
std::string_view to_string(Variant variant);
std::optional<Variant> parse_variant(std::string_view text);

// How exchanges lie over inner steps.
struct Overlap {
  Variant variant = Variant::synchronous;
  std::uint32_t fragments = 1;      // P; 1 unless streaming
  std::uint32_t overlap_steps = 0;  // tau; used when streaming
  bool operator==(const Overlap&) const = default;
};

// Inner steps done when exchange number `index` begins, and when its outcome is applied at the
// latest. Exchanges never overlap each other: tau is cut to what is left until the next one.
std::uint64_t start_step(const Overlap& overlap, std::uint32_t k, std::uint64_t index);
std::uint64_t finish_step(const Overlap& overlap, std::uint32_t k, std::uint64_t index);

struct RoundCosts {
  double step_s = 0;
  double prepare_s = 0;   // encoding, decoding and the outer step, of the whole model
  double exchange_s = 0;  // of one fragment
};
double round_s(std::uint32_t k, const Overlap& overlap, const RoundCosts& costs);
double utilisation(std::uint32_t k, const Overlap& overlap, const RoundCosts& costs);

// The smallest K that hides an exchange that is applied one round late. `exchange_s` should be a
// 95th percentile: link times have heavy tails.
double hiding_k(double step_s, double exchange_s);

// What a link costs, from what transfers over it took: seconds = alpha + beta x bytes.

struct Transfer {
  double bytes = 0, seconds = 0;
};

struct LinkFit {
  double latency_s = 0;         // alpha
  double seconds_per_byte = 0;  // beta
};

// Least squares of the relative error, so that small and large transfers count alike; neither alpha
// nor beta below 0. With transfers of one size only, all of the time is taken for bandwidth. Needs
// one transfer.
LinkFit fit_link(std::span<const Transfer> transfers);

// The value below which this share of the samples lies, linear between them. Needs one sample.
double quantile(std::vector<double> samples, double share);

}  // namespace causeway::diloco::tuner
