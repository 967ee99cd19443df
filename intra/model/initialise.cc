#include "intra/model/model.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>

#include "intra/model/kernels/parallel.h"
#include "intra/model/kernels/philox.h"

namespace causeway::intra {
namespace {

constexpr double kDeviation = 0.02;

// FNV-1a.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

// ln(x) for x > 0 from arithmetic alone: the C library's differs in the last bit between versions
// and CPUs, and regions that start from a seed must start from the same bits. x = 2^e m with m in
// [0.5, 1); ln m = 2 artanh((m - 1) / (m + 1)).
double exact_log(double x) {
  int exponent = 0;
  const double m = std::frexp(x, &exponent);
  const double z = (m - 1) / (m + 1);  // |z| <= 1/3: 17 terms reach 2^-53
  double sum = 0;
  for (int term = 35; term >= 1; term -= 2) sum = sum * (z * z) + 1.0 / term;
  return 2 * z * sum + exponent * 0.6931471805599453;
}

// Two independent normal numbers by Marsaglia's polar method.
struct NormalPair {
  double first, second;
};
NormalPair normal_pair(PhiloxKey key, std::uint64_t index) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto bits = philox(
        {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), attempt, 0},
        key);
    const double u = bits[0] * 0x1p-31 - 1, v = bits[1] * 0x1p-31 - 1;
    const double s = u * u + v * v;
    if (s >= 1 || s == 0) continue;
    const double factor = std::sqrt(-2 * exact_log(s) / s);
    return {u * factor, v * factor};
  }
}

void fill_normal(std::uint64_t seed, std::string_view name, double deviation,
                 std::span<float> out) {
  const auto key = philox_key(mix_bits(seed) ^ hash_name(name));
  const auto pairs = static_cast<std::int64_t>((out.size() + 1) / 2);
  parallel_for(pairs, 4096, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto pair = begin; pair < end; ++pair) {
      const auto at = static_cast<std::size_t>(2 * pair);
      const auto [first, second] = normal_pair(key, static_cast<std::uint64_t>(pair));
      out[at] = static_cast<float>(deviation * first);
      if (at + 1 < out.size()) out[at + 1] = static_cast<float>(deviation * second);
    }
  });
}

// The layers whose output is added to the residual stream: their variances add up over the depth.
bool is_residual_projection(std::string_view name) {
  return name.ends_with("c_proj.weight") || name.ends_with("o_proj.weight") ||
         name.ends_with("down_proj.weight");
}

}  // namespace

void initialise_parameters(const ModelOptions& options, const diloco::Layout& layout,
                           std::uint64_t seed, std::span<float> params) {
  assert(params.size() == layout.size());
  std::ranges::fill(params, 0.0F);
  for (const auto& tensor : layout.tensors()) {
    const std::string_view name = tensor.spec.name;
    const auto values = params.subspan(tensor.offset, tensor.spec.count());
    if (tensor.spec.shape.size() > 1) {
      const double depth =
          is_residual_projection(name) ? 2.0 * static_cast<double>(options.layers) : 1.0;
      fill_normal(seed, name, kDeviation / std::sqrt(depth), values);
    } else if (name.ends_with(".weight")) {
      std::ranges::fill(values, 1.0F);
    }
  }
}

}  // namespace causeway::intra
