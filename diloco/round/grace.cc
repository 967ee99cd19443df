#include "diloco/round/grace.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace causeway::diloco {
namespace {

constexpr Time kUnmeasured = std::chrono::seconds{60};

}  // namespace

Grace::Grace(Time min, Time max) : min_(min), max_(std::max(min, max)) {}

Time Grace::length() const {
  if (!measured_) return std::clamp(kUnmeasured, min_, max_);
  const double estimate_us =
      std::min(mean_us_ + 4 * deviation_us_, static_cast<double>(max_.count()));
  return std::clamp(Time{static_cast<Time::rep>(estimate_us)}, min_, max_);
}

void Grace::start_from(Time length) {
  if (measured_) return;
  mean_us_ = static_cast<double>(length.count());
  deviation_us_ = 0;
  measured_ = true;
}

void Grace::add(Time lateness) {
  const auto sample_us = static_cast<double>(lateness.count());
  if (!measured_) {
    mean_us_ = sample_us;
    deviation_us_ = sample_us / 2;
    measured_ = true;
    return;
  }
  deviation_us_ += (std::abs(sample_us - mean_us_) - deviation_us_) / 4;
  mean_us_ += (sample_us - mean_us_) / 8;
}

}  // namespace causeway::diloco
