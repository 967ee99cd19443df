#include "intra/step/peak_flops.h"

#include <gtest/gtest.h>

namespace causeway::intra {
namespace {

TEST(PeakFlops, KnowsDevicesByPartsOfTheirNames) {
  using Precision = ModelOptions::Precision;
  EXPECT_EQ(peak_flops("NVIDIA H200", Precision::bf16), 989.4e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe", Precision::bf16), 756e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Precision::fp32), 156e12);
  EXPECT_EQ(peak_flops("NVIDIA A10", Precision::bf16), 125e12);
  EXPECT_EQ(peak_flops("NVIDIA L4", Precision::bf16), 121e12);
  EXPECT_EQ(peak_flops("AMD EPYC 7763", Precision::bf16), std::nullopt);
}

TEST(PeakFlops, UtilisationIsWhatTheModelNeedsOfWhatTheDevicesCould) {
  ModelOptions model;
  model.precision = ModelOptions::Precision::bf16;
  const double tokens_per_s = 0.25 * 2 * 312e12 / flops_per_token(model);
  EXPECT_DOUBLE_EQ(model_flops_utilisation(model, tokens_per_s, "A100", 2).value(), 0.25);
  EXPECT_EQ(model_flops_utilisation(model, 1, "CPU", 2), std::nullopt);
}

}  // namespace
}  // namespace causeway::intra
