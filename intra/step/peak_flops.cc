#include "intra/step/peak_flops.h"

namespace causeway::intra {
namespace {

struct Peak {
  std::string_view part;  // of the device's name
  double bf16, tf32;
};

// Data sheets of NVIDIA, without sparsity. The first whose part is in the name counts.
constexpr Peak kPeaks[] = {
    {"B200", 2250e12, 1125e12},       {"GH200", 989.4e12, 494.7e12}, {"H200", 989.4e12, 494.7e12},
    {"H100 NVL", 835.5e12, 417.5e12}, {"H100 PCIe", 756e12, 378e12}, {"H100", 989.4e12, 494.7e12},
    {"A100", 312e12, 156e12},         {"A10G", 70e12, 35e12},        {"A10", 125e12, 62.5e12},
    {"L40S", 362e12, 183e12},         {"L40", 181e12, 90.5e12},      {"L4", 121e12, 60e12},
    {"RTX 4090", 165.2e12, 82.6e12},  {"RTX 3090", 71e12, 35.6e12},
};

}  // namespace

std::optional<double> peak_flops(std::string_view device, ModelOptions::Precision precision) {
  for (const Peak& peak : kPeaks) {
    if (device.find(peak.part) == std::string_view::npos) continue;
    return precision == ModelOptions::Precision::bf16 ? peak.bf16 : peak.tf32;
  }
  return std::nullopt;
}

std::optional<double> model_flops_utilisation(const ModelOptions& model, double tokens_per_s,
                                              std::string_view device, std::size_t devices) {
  const std::optional<double> peak = peak_flops(device, model.precision);
  if (!peak) return std::nullopt;
  return tokens_per_s * flops_per_token(model) / (*peak * static_cast<double>(devices));
}

}  // namespace causeway::intra
