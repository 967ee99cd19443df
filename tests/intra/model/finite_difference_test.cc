// The hand-derived backward pass against differences of the loss.
//
// Along a unit direction u, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h differs from u . gradient
// by O(h^4) plus the rounding of f: the loss comes back as one float of about 2.5, half a unit in
// whose last place is 1.2e-7, and its terms carry errors of that size, of which h = 0.02 makes
// about 18 / 12 x 2e-7 / 0.02 = 1.5e-5. A wrong term of a gradient is off by a fraction of the
// gradient itself, which is 1e-2 to 1 here.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "intra/model/model.h"
#include "tests/intra/model/tiny_models.h"

namespace causeway::intra {
namespace {

constexpr double kStep = 0.02;

class Differences {
 public:
  explicit Differences(const ModelOptions& options)
      : model_(make_model(options)),
        sequences_(options, 2, 29),
        params_(tiny::formula_params(model_->layout())),
        gradients_(params_.size()) {
    model_->train(sequences_.all(), key_, 1, params_, gradients_, {});
  }

  // Along the gradient itself, which sees an error in any element, and along fixed directions.
  void check_every_tensor() {
    for (const auto& tensor : model_->layout().tensors()) {
      SCOPED_TRACE(tensor.spec.name);
      const auto gradient = std::span(gradients_).subspan(tensor.offset, tensor.spec.count());
      ASSERT_GT(tiny::norm(gradient), 1e-5);
      check(tensor.offset, std::vector<float>(gradient.begin(), gradient.end()));
      for (const double phase : {0.0, 1.0}) {
        std::vector<float> direction(gradient.size());
        for (std::size_t i = 0; i < direction.size(); ++i) {
          direction[i] =
              static_cast<float>(std::sin(1.7 * static_cast<double>(i * i) + phase) + 0.1);
        }
        check(tensor.offset, direction);
      }
    }
  }

 private:
  void check(std::size_t offset, const std::vector<float>& direction) {
    const double length = tiny::norm(direction);
    double expected = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      expected += direction[i] / length * gradients_[offset + i];
    }
    const auto f = [&](double h) { return loss_at(offset, direction, h / length); };
    const double near = f(kStep) - f(-kStep), far = f(2 * kStep) - f(-2 * kStep);
    EXPECT_NEAR((8 * near - far) / (12 * kStep), expected, 5e-5 + 1e-3 * std::abs(expected));
  }

  double loss_at(std::size_t offset, const std::vector<float>& direction, double factor) {
    auto moved = params_;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      moved[offset + i] = static_cast<float>(moved[offset + i] + factor * direction[i]);
    }
    std::vector<float> unused(params_.size());
    model_->params_changed();
    return model_->train(sequences_.all(), key_, 1, moved, unused, {});
  }

  std::unique_ptr<Model> model_;
  tiny::Sequences sequences_;
  DropoutKey key_{.seed = 5, .step = 3, .first_sample = 0};
  std::vector<float> params_, gradients_;
};

TEST(FiniteDifferences, Gpt2) {
  Differences(tiny::gpt2()).check_every_tensor();
}

TEST(FiniteDifferences, LlamaWithGroupedQueries) {
  Differences(tiny::llama()).check_every_tensor();
}

TEST(FiniteDifferences, LlamaWithJoinedLayers) {
  Differences(tiny::llama_with_joined_layers()).check_every_tensor();
}

// The masks depend on the key alone, so the loss under dropout is a smooth function of the
// parameters too.
TEST(FiniteDifferences, Gpt2WithDropout) {
  auto options = tiny::gpt2();
  options.dropout = 0.3F;
  Differences(options).check_every_tensor();
}

TEST(FiniteDifferences, LlamaWithDropout) {
  auto options = tiny::llama();
  options.dropout = 0.2F;
  Differences(options).check_every_tensor();
}

}  // namespace
}  // namespace causeway::intra
