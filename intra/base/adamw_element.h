// One element's AdamW step (arXiv 1711.05101), for the CPU and for devices.
#pragma once

#include <cmath>

namespace causeway::intra {

// The same for every element of a step.
struct AdamWFactors {
  float beta1 = 0, beta2 = 0, one_minus_beta1 = 0, one_minus_beta2 = 0;
  float gradient_scale = 1;
  float step_size = 0;         // lr / (1 - beta1^t)
  float inverse_root_bc2 = 0;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
  float matrix_decay = 1;  // what a matrix is multiplied by; a vector is not
};

template <typename Float>
constexpr void adamw_element(const AdamWFactors& f, Float decay, Float gradient, Float& param,
                             Float& first_moment, Float& second_moment) {
  const Float scaled = gradient * f.gradient_scale;
  const Float m = f.beta1 * first_moment + f.one_minus_beta1 * scaled;
  const Float v = f.beta2 * second_moment + f.one_minus_beta2 * (scaled * scaled);
  first_moment = m;
  second_moment = v;
  const Float denominator = std::sqrt(v) * f.inverse_root_bc2 + f.epsilon;
  param = param * decay - f.step_size * m / denominator;
}

}  // namespace causeway::intra
