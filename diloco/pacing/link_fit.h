// What a link costs, from what transfers over it took: seconds = alpha + beta x bytes, and how far
// single transfers stray from that.
#pragma once

#include <span>
#include <vector>

namespace causeway::diloco::tuner {

struct Transfer {
  double bytes = 0, seconds = 0;
};

struct LinkFit {
  double latency_s = 0;         // alpha
  double seconds_per_byte = 0;  // beta
  // Quantiles of measured / fitted time.
  double p50 = 1, p95 = 1;

  double seconds(double bytes) const { return latency_s + seconds_per_byte * bytes; }
};

// Least squares of the relative error, so that small and large transfers count alike; neither alpha
// nor beta below 0. With transfers of one size only, all of the time is taken for bandwidth beyond
// `latency_s`, if that is known. Needs one transfer.
LinkFit fit_link(std::span<const Transfer> transfers, double latency_s = 0);

// The value below which this share of the samples lies, linear between them. Needs one sample.
double quantile(std::vector<double> samples, double share);

}  // namespace causeway::diloco::tuner
