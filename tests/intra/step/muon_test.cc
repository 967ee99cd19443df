#include "intra/step/muon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <random>
#include <string>

#include "tests/golden/muon_golden.h"

namespace causeway::intra {
namespace {

InnerOptions muon_options() {
  InnerOptions options;
  options.optimizer = InnerOptions::Optimizer::muon;
  return options;
}

std::vector<float> random_matrices(std::size_t elements, std::uint32_t seed) {
  std::mt19937 chance(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(elements);
  for (float& value : values) value = normal(chance);
  return values;
}

// The largest difference of A A^T (A^T A, if there are more rows) from the unit matrix.
double distance_from_orthogonal(std::int64_t out, std::int64_t in, const float* matrix) {
  const std::int64_t small = std::min(out, in), large = std::max(out, in);
  double worst = 0;
  for (std::int64_t i = 0; i < small; ++i) {
    for (std::int64_t j = 0; j < small; ++j) {
      double product = 0;
      for (std::int64_t k = 0; k < large; ++k) {
        const auto at = [&](std::int64_t line) {
          return double{out <= in ? matrix[line * in + k] : matrix[k * in + line]};
        };
        product += at(i) * at(j);
      }
      worst = std::max(worst, std::abs(product - (i == j ? 1 : 0)));
    }
  }
  return worst;
}

struct Shape {
  std::int64_t count, out, in;
};

class Orthogonal : public testing::TestWithParam<std::tuple<Shape, ModelOptions::Precision>> {};

TEST_P(Orthogonal, MatricesComeOutAndTheirDirectionStays) {
  const auto [shape, precision] = GetParam();
  const auto elements = static_cast<std::size_t>(shape.out * shape.in);
  const std::vector<float> start =
      random_matrices(static_cast<std::size_t>(shape.count) * elements, 7);
  std::vector<float> matrices = start;
  const Products products = choose_products(precision);
  Orthogonaliser(products).run(shape.count, shape.out, shape.in, matrices);
  for (std::size_t m = 0; m < static_cast<std::size_t>(shape.count); ++m) {
    // Singular values that were not tiny come out within 5 % of 1.
    EXPECT_LT(distance_from_orthogonal(shape.out, shape.in, &matrices[m * elements]), 0.3) << m;
    double along = 0;  // of U V^T: the sum of singular values
    for (std::size_t i = 0; i < elements; ++i)
      along += double{matrices[m * elements + i]} * start[m * elements + i];
    EXPECT_GT(along, 0);
  }
  if (shape.count == 1) return;
  std::vector<float> last(start.end() - static_cast<std::ptrdiff_t>(elements), start.end());
  Orthogonaliser(products).run(1, shape.out, shape.in, last);
  const std::span<const float> among_others = std::span(matrices).last(elements);
  const float tolerance = precision == ModelOptions::Precision::fp32 ? 1e-5F : 2e-2F;
  EXPECT_THAT(last, testing::Pointwise(testing::FloatNear(tolerance), among_others));
}

std::string name_of(const testing::TestParamInfo<Orthogonal::ParamType>& test) {
  const auto [shape, precision] = test.param;
  return std::to_string(shape.count) + "of" + std::to_string(shape.out) + "x" +
         std::to_string(shape.in) + (precision == ModelOptions::Precision::fp32 ? "fp32" : "bf16");
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Orthogonal,
    testing::Combine(testing::Values(Shape{1, 24, 80}, Shape{3, 80, 24}, Shape{5, 16, 48},
                                     Shape{2, 33, 101}, Shape{1, 1, 40}),
                     testing::Values(ModelOptions::Precision::fp32, ModelOptions::Precision::bf16)),
    name_of);

TEST(Orthogonaliser, LeavesZerosAlone) {
  std::vector<float> zeros(2 * 16 * 32);
  Orthogonaliser(Products::fp32).run(2, 16, 32, zeros);
  EXPECT_THAT(zeros, testing::Each(0.0F));
}

// Whether it is large or tiny.
TEST(Orthogonaliser, DoesNotMindTheScale) {
  std::vector<float> one = random_matrices(16 * 32, 1), tiny = one;
  for (float& value : tiny) value = std::ldexp(value, -100);
  Orthogonaliser(Products::fp32).run(1, 16, 32, one);
  Orthogonaliser(Products::fp32).run(1, 16, 32, tiny);
  EXPECT_THAT(tiny, testing::Pointwise(testing::FloatNear(1e-5F), one));
}

diloco::Layout golden_layout() {
  std::vector<diloco::TensorSpec> tensors{{"transformer.wte.weight", {4, 5}}};
  for (const auto& shape : muon_golden::kShapes)
    tensors.push_back(
        {"transformer.h." + std::to_string(tensors.size()) + ".weight", {shape[0], shape[1]}});
  tensors.push_back({"transformer.h.1.bias", {3}});
  return diloco::Layout(tensors);
}

TEST(Muon, AgreesWithItsEquations) {
  namespace golden = muon_golden;
  InnerOptions options = muon_options();
  options.momentum = golden::kMomentum;
  options.weight_decay = golden::kWeightDecay;
  const diloco::Layout layout = golden_layout();
  Muon muon(options, layout, Products::fp32);
  AdamW moments(options, layout);
  std::vector<float> params(layout.size()), gradients(layout.size());
  const std::vector<MuonMatrix> matrices = muon_matrices(options, layout);
  ASSERT_EQ(matrices.size(), std::size(golden::kShapes));
  const auto for_each_number = [&](const auto& visit) {
    std::size_t i = 0;
    for (const MuonMatrix& matrix : matrices) {
      for (std::int64_t e = 0; e < matrix.out * matrix.in; ++e)
        visit(matrix.elements.begin + static_cast<std::size_t>(e), i++);
    }
    return i;
  };
  constexpr float kScale = 0.25F;
  const std::size_t count = for_each_number(
      [&](std::size_t at, std::size_t i) { params[at] = static_cast<float>(golden::kStart[i]); });
  const std::vector<Range> everything{{0, layout.size()}};
  for (std::size_t step = 0; step < golden::kSteps; ++step) {
    for_each_number([&](std::size_t at, std::size_t i) {
      gradients[at] = static_cast<float>(golden::kGradients[step * count + i]) / kScale;
    });
    muon.step(golden::kLr, kScale, everything, moments, params, gradients);
  }
  for_each_number([&](std::size_t at, std::size_t i) {
    EXPECT_NEAR(params[at], golden::kParams[i], 2e-6) << i;
    EXPECT_NEAR(moments.first_moment()[at], golden::kMomenta[i], 1e-5) << i;
  });
}

TEST(Muon, LeavesEmbeddingsVectorsAndPaddingToAdamW) {
  const diloco::Layout layout = golden_layout();
  Muon muon(muon_options(), layout, Products::fp32);
  AdamW moments(muon_options(), layout);
  std::vector<float> params(layout.size()), gradients = random_matrices(layout.size(), 3);
  const Range blocks = moments.muon();
  for (const MuonMatrix& matrix : muon.matrices()) {  // padding of gradients is zero
    const auto used = static_cast<std::size_t>(matrix.out * matrix.in);
    std::fill(&gradients[matrix.elements.begin + used], &gradients[matrix.elements.end - 1] + 1,
              0.0F);
  }
  const std::vector<Range> everything{{0, layout.size()}};
  muon.step(0.1F, 1, everything, moments, params, gradients);
  EXPECT_THAT(std::span(params).first(blocks.begin), testing::Each(0.0F));
  EXPECT_THAT(std::span(params).subspan(blocks.end), testing::Each(0.0F));
  for (const MuonMatrix& matrix : muon.matrices()) {
    const auto used = static_cast<std::size_t>(matrix.out * matrix.in);
    const std::span<const float> own =
        std::span(params).subspan(matrix.elements.begin, matrix.elements.count());
    EXPECT_THAT(own.first(used), testing::Each(testing::Ne(0.0F)));
    EXPECT_THAT(own.subspan(used), testing::Each(0.0F));
  }
  const std::vector<float> stepped = params;
  moments.step(0, 0.1F, 1, params, gradients);
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const bool of_muon = blocks.begin <= i && i < blocks.end;
    ASSERT_EQ(params[i] == stepped[i], of_muon || gradients[i] == 0) << i;
  }
}

// One buffer of the size of the blocks' matrices less.
TEST(Muon, KeepsNoSecondMoment) {
  const diloco::Layout layout = golden_layout();
  AdamW muon(muon_options(), layout), adamw({}, layout);
  EXPECT_EQ(muon.first_moment().size(), layout.size());
  EXPECT_EQ(muon.second_moment().size(), adamw.second_moment().size() - muon.muon().count());
}

TEST(Muon, MomentsOfPartsAreTakenBack) {
  const diloco::Layout layout = golden_layout();
  AdamW moments(muon_options(), layout);
  for (std::size_t i = 0; i < moments.first_moment().size(); ++i)
    moments.first_moment()[i] = static_cast<float>(i + 1);
  for (std::size_t i = 0; i < moments.second_moment().size(); ++i)
    moments.second_moment()[i] = static_cast<float>(i + 1);
  const std::vector<float> first(moments.first_moment().begin(), moments.first_moment().end());
  const std::vector<float> second(moments.second_moment().begin(), moments.second_moment().end());
  const auto matrices = muon_matrices(muon_options(), layout);
  const Range kept_matrix = matrices[1].elements, vectors{moments.muon().end, layout.size()};
  moments.keep({{16, 48}, kept_matrix, vectors});
  EXPECT_EQ(moments.first_moment().size(), 32 + kept_matrix.count() + vectors.count());
  EXPECT_EQ(moments.second_moment().size(), 32 + vectors.count());
  EXPECT_EQ(moments.first_moment_of(kept_matrix)[5], first[kept_matrix.begin + 5]);
  moments.widen();
  ASSERT_TRUE(moments.has_all());
  const std::size_t matrix_count = moments.muon().count();
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const bool kept = (16 <= i && i < 48) || i >= vectors.begin ||
                      (kept_matrix.begin <= i && i < kept_matrix.end);
    ASSERT_EQ(moments.first_moment()[i], kept ? first[i] : 0) << i;
    if (moments.muon().begin <= i && i < moments.muon().end) continue;
    const std::size_t at = i < moments.muon().begin ? i : i - matrix_count;
    ASSERT_EQ(moments.second_moment()[at], kept ? second[at] : 0) << i;
  }
}

// Every number of a step is counted: 2 m n k for each product, five times.
TEST(Muon, CostsWhatItsProductsDo) {
  EXPECT_EQ(Orthogonaliser::flops(768, 3072),
            5 * (2.0 * 2 * 768 * 768 * 3072 + 2.0 * 768 * 768 * 768));
  EXPECT_EQ(Orthogonaliser::flops(3072, 768), Orthogonaliser::flops(768, 3072));
}

}  // namespace
}  // namespace causeway::intra
