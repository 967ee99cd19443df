// Small models whose heads a GPU's jobs can run, and a decoder with what belongs to it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "intra/cuda/step/device_transformer.h"
#include "tests/intra/model/tiny_models.h"

namespace causeway::intra::cuda {

// A vocabulary that is no multiple of anything, more packs in a row than lanes in a warp.
inline ModelOptions gpt2() {
  return {.family = ModelOptions::Family::gpt2,
          .vocabulary = 61,
          .context = 12,
          .layers = 2,
          .width = 288,
          .heads = 6,
          .kv_heads = 6,
          .hidden = 120};
}

// Two query heads to each key head; q, k, v that lie apart in the flat layout.
inline ModelOptions llama() {
  return {.family = ModelOptions::Family::llama,
          .vocabulary = 131,
          .context = 37,
          .layers = 2,
          .width = 64,
          .heads = 4,
          .kv_heads = 2,
          .hidden = 88};
}

// q, k, v and gate, up are each one product.
inline ModelOptions llama_with_joined_layers() {
  ModelOptions options = llama();
  options.layers = 1;
  options.kv_heads = 4;
  options.hidden = 64;
  return options;
}

// As Llama 3.2: the token embedding is the head, and rotations of few turns are slowed down.
inline ModelOptions llama_tied_and_rescaled() {
  ModelOptions options = llama();
  options.layers = 1;
  options.tied_head = true;
  options.rope_scaling = {.factor = 8, .original_context = 16};
  return options;
}

struct Case {
  std::string name;
  ModelOptions model;
  int recompute = 0;
};

inline std::vector<Case> cases() {
  ModelOptions dropping_gpt2 = gpt2(), dropping_llama = llama();
  dropping_gpt2.dropout = dropping_llama.dropout = 0.2F;
  ModelOptions wide = gpt2();  // every warp of the classifier has some of it
  wide.vocabulary = 4096;
  wide.layers = 1;
  return {{"gpt2", gpt2()},
          {"gpt2_recompute_1", gpt2(), 1},
          {"gpt2_recompute_2", gpt2(), 2},
          {"gpt2_dropout", dropping_gpt2, 0},
          {"llama", llama()},
          {"llama_recompute_2", llama(), 2},
          {"llama_joined", llama_with_joined_layers()},
          {"llama_tied_and_rescaled", llama_tied_and_rescaled()},
          {"llama_dropout", dropping_llama, 1},
          {"wide_vocabulary", wide}};
}

// Tensor by tensor.
inline void expect_close(const diloco::Layout& layout, std::span<const float> values,
                         std::span<const float> expected, double tolerance) {
  for (const auto& tensor : layout.tensors()) {
    const auto part = [&](std::span<const float> of) {
      return of.subspan(tensor.offset, tensor.spec.count());
    };
    EXPECT_LT(tiny::relative_difference(part(values), part(expected)), tolerance)
        << tensor.spec.name;
  }
}

// Flat spans in a backend's memory, with the parameters of tiny_models.h, and a decoder on them.
class DeviceTransformerUnderTest {
 public:
  DeviceTransformerUnderTest(Backend& backend, const DeviceTransformerOptions& options)
      : layout(parameter_tensors(options.model)),
        result(reinterpret_cast<StepResult*>(backend.allocate(sizeof(StepResult)))),
        backend_(backend) {
    const std::size_t bytes = (layout.size() + slack(options.model)) * sizeof(float);
    for (std::span<float>* span : {&spans.params, &spans.gradients}) {
      *span = {reinterpret_cast<float*>(backend.allocate(bytes)), layout.size()};
    }
    decoder = make_device_transformer(options, layout, spans, result, backend);
    set_params(tiny::formula_params(layout));
  }

  void set_params(const std::vector<float>& params) {
    backend_.upload(params.data(), spans.params.data(), params.size() * sizeof(float));
    decoder->params_changed();
  }
  std::vector<float> values(std::span<const float> span) const {
    std::vector<float> values(span.size());
    backend_.download(span.data(), values.data(), span.size_bytes());
    return values;
  }
  StepResult step_result() const {
    StepResult value;
    backend_.download(result, &value, sizeof value);
    return value;
  }

  diloco::Layout layout;
  TrainingSpans spans;
  StepResult* result;
  std::unique_ptr<DeviceTransformer> decoder;

 private:
  Backend& backend_;
};

}  // namespace causeway::intra::cuda
