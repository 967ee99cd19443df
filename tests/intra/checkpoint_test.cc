#include "intra/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

ModelOptions small_model() {
  return {.family = ModelOptions::Family::llama,
          .vocabulary = 11,
          .context = 16,
          .layers = 2,
          .width = 8,
          .heads = 4,
          .kv_heads = 2,
          .hidden = 12,
          .rope_theta = 12'345.678,
          .norm_epsilon = 1e-6,
          .dropout = 0.1F,
          .precision = ModelOptions::Precision::bf16};
}

std::vector<float> numbered_params(const diloco::Layout& layout) {
  std::vector<float> params(layout.size());
  for (const auto& [spec, offset] : layout.tensors()) {
    for (std::size_t i = 0; i < spec.count(); ++i) {
      params[offset + i] = std::sin(static_cast<float>(offset + i));
    }
  }
  return params;
}

class Checkpoint : public testing::Test {
 protected:
  // The tensors and metadata of a good checkpoint, to be bent and written by hand.
  void SetUp() override {
    save_model(file_, small_model(), layout_, params_, {});
    metadata_ = SafetensorsReader(file_).metadata();
    for (const auto& [spec, offset] : layout_.tensors()) {
      tensors_.push_back({spec.name, spec.shape, std::span(params_).subspan(offset, spec.count())});
    }
  }

  void refuses(const std::vector<std::string>& parts) const {
    write_safetensors(file_, tensors_, metadata_);
    std::vector<std::string> all = parts;
    all.push_back(file_.string());
    expect_refusal(Errc::bad_checkpoint, all, [&] { load_model(file_); });
  }

  TemporaryDirectory directory_;
  fs::path file_ = directory_.path() / "model.safetensors";
  diloco::Layout layout_{parameter_tensors(small_model())};
  std::vector<float> params_ = numbered_params(layout_);
  std::map<std::string, std::string> metadata_;
  std::vector<TensorView> tensors_;
};

TEST_F(Checkpoint, LoadsWhatWasSaved) {
  for (const auto family : {ModelOptions::Family::gpt2, ModelOptions::Family::llama}) {
    ModelOptions options = small_model();
    options.family = family;
    if (family == ModelOptions::Family::gpt2) options.kv_heads = options.heads;
    const diloco::Layout layout(parameter_tensors(options));
    const std::vector<float> params = numbered_params(layout);
    save_model(file_, options, layout, params, {{"run", "r1"}, {"round", "12"}});
    const LoadedModel loaded = load_model(file_);
    EXPECT_EQ(loaded.params, params);
    EXPECT_EQ(loaded.metadata,
              (std::map<std::string, std::string>{{"run", "r1"}, {"round", "12"}}));
    EXPECT_EQ(loaded.options.family, options.family);
    EXPECT_EQ(loaded.options.vocabulary, options.vocabulary);
    EXPECT_EQ(loaded.options.context, options.context);
    EXPECT_EQ(loaded.options.layers, options.layers);
    EXPECT_EQ(loaded.options.width, options.width);
    EXPECT_EQ(loaded.options.heads, options.heads);
    EXPECT_EQ(loaded.options.kv_heads, options.kv_heads);
    EXPECT_EQ(loaded.options.hidden, options.hidden);
    EXPECT_EQ(loaded.options.rope_theta, options.rope_theta);
    EXPECT_EQ(loaded.options.norm_epsilon, options.norm_epsilon);
    EXPECT_EQ(loaded.options.dropout, options.dropout);
    EXPECT_EQ(loaded.options.precision, options.precision);
  }
}

TEST_F(Checkpoint, HoldsTensorsByNameWithoutPadding) {
  const SafetensorsReader reader(file_);
  ASSERT_EQ(reader.names().size(), layout_.tensors().size());
  for (const auto& [spec, offset] : layout_.tensors()) {
    EXPECT_EQ(reader.shape(spec.name), spec.shape);
    std::vector<float> values(spec.count());
    reader.read(spec.name, values);
    EXPECT_EQ(values[0], params_[offset]);
  }
}

TEST_F(Checkpoint, RefusesATrainingState) {
  metadata_.clear();
  refuses({"is no model checkpoint"});
}

TEST_F(Checkpoint, RefusesImpossibleSettings) {
  const auto refuses_setting = [&](const std::string& key, const std::string& value) {
    const std::string whole = "causeway.model." + key;
    const std::string good = std::exchange(metadata_.at(whole), value);
    refuses({});
    metadata_[whole] = good;
  };
  for (const char* key :
       {"vocabulary", "context", "layers", "width", "heads", "kv_heads", "hidden"}) {
    refuses_setting(key, "0");
    refuses_setting(key, "9223372036854775807");
  }
  for (const char* value : {"", "x", "11x", " 11", "11.0", "-11", "99999999999999999999"}) {
    refuses_setting("vocabulary", value);
  }
  for (const char* value : {"", "x", "nan", "inf", "1e999"}) refuses_setting("rope_theta", value);
  refuses_setting("family", "bert");
  refuses_setting("precision", "fp64");
  refuses_setting("heads", "3");
}

TEST_F(Checkpoint, RefusesTensorsOfAnotherModel) {
  const std::vector<TensorView> good = tensors_;
  tensors_[0].name = "other";
  refuses({"no tensor", good[0].name});
  tensors_ = good;
  std::swap(tensors_[0].shape[0], tensors_[0].shape[1]);
  refuses({"another shape", good[0].name});
  tensors_ = good;
  tensors_.push_back({"extra", {1}, std::span(params_).first(1)});
  refuses({"tensors that its model does not have"});
  tensors_ = good;
  metadata_["causeway.model.layers"] = "3";
  refuses({"no tensor 'model.layers.2."});
}

}  // namespace
}  // namespace causeway::intra
