// A Model whose answers a test writes.
#pragma once

#include <functional>

#include "intra/model/model.h"

namespace causeway::intra {

class ScriptedModel final : public Model {
 public:
  explicit ScriptedModel(const ModelOptions& options)
      : options_(options), layout_({{"w", {8, 8}}}) {}

  std::function<std::vector<float>(std::span<const std::int32_t>)> logits;
  std::function<float(const Batch&)> loss;

  const ModelOptions& options() const override { return options_; }
  const diloco::Layout& layout() const override { return layout_; }
  void initialise(std::uint64_t, std::span<float>) const override {}
  float train(const Batch& batch, const DropoutKey&, float, std::span<const float>,
              std::span<float>, const GradientReady&) override {
    return loss(batch);
  }
  void params_changed() override {}
  void params_changed(std::span<const float>, std::size_t, std::size_t) override {}
  float evaluate(const Batch& batch, std::span<const float>) override { return loss(batch); }
  std::vector<float> next_token_logits(std::span<const std::int32_t> tokens,
                                       std::span<const float>) override {
    return logits(tokens);
  }

 private:
  ModelOptions options_;
  diloco::Layout layout_;
};

}  // namespace causeway::intra
