#include "intra/published/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "intra/base/safetensors.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

ModelOptions small_gpt2() {
  return {.family = ModelOptions::Family::gpt2,
          .vocabulary = 11,
          .context = 16,
          .layers = 2,
          .width = 8,
          .heads = 4,
          .kv_heads = 4,
          .hidden = 12};
}

ModelOptions small_llama() {
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

std::string read_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

class Checkpoint : public testing::Test {
 protected:
  // The tensors of a good checkpoint, to be bent and written by hand.
  void SetUp() override {
    save_model(directory_, options_, layout_, params_, {}, {});
    for (const auto& [spec, offset] : layout_.tensors()) {
      tensors_.push_back({spec.name, spec.shape, std::span(params_).subspan(offset, spec.count())});
    }
  }

  void refuses_tensors(const std::vector<std::string>& parts) const {
    write_safetensors(directory_ / "model.safetensors", tensors_, {});
    expect_refusal(Errc::bad_checkpoint, parts, [&] { load_model(directory_); });
  }

  // With `from` in its config.json replaced by `to`.
  void refuses_config(const std::string& from, const std::string& to,
                      const std::vector<std::string>& parts) const {
    const std::string good = read_text(directory_ / "config.json");
    const std::size_t place = good.find(from);
    ASSERT_NE(place, std::string::npos) << from << " in " << good;
    write_text(directory_ / "config.json", std::string(good).replace(place, from.size(), to));
    std::vector<std::string> all = parts;
    all.push_back(directory_.string());
    expect_refusal(Errc::bad_checkpoint, all, [&] { load_model(directory_); });
    write_text(directory_ / "config.json", good);
  }

  TemporaryDirectory temporary_;
  fs::path directory_ = temporary_.path() / "model";
  ModelOptions options_ = small_llama();
  diloco::Layout layout_{parameter_tensors(options_)};
  std::vector<float> params_ = numbered_params(layout_);
  std::vector<TensorView> tensors_;
};

TEST_F(Checkpoint, LoadsWhatWasSaved) {
  ModelOptions tied = small_llama();
  tied.tied_head = true;
  tied.rope_scaling = {.factor = 8, .original_context = 16};
  ModelOptions linear = small_llama();
  linear.rope_scaling = {.factor = 2};
  for (const ModelOptions& options : {small_gpt2(), small_llama(), tied, linear}) {
    const diloco::Layout layout(parameter_tensors(options));
    const std::vector<float> params = numbered_params(layout);
    save_model(directory_, options, layout, params, {{"run", "r1"}, {"round", "12"}}, {});
    for (const fs::path& path : {directory_, directory_ / "model.safetensors"}) {
      const LoadedModel loaded = load_model(path);
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
      EXPECT_EQ(loaded.options.tied_head, options.tied_head);
      EXPECT_EQ(loaded.options.rope_theta, options.rope_theta);
      EXPECT_EQ(loaded.options.rope_scaling, options.rope_scaling);
      EXPECT_EQ(loaded.options.norm_epsilon, options.norm_epsilon);
      EXPECT_EQ(loaded.options.precision, options.precision);
    }
  }
}

TEST_F(Checkpoint, KeepsTheLinearWeightsOfGpt2AsConv1D) {
  const diloco::Layout layout(parameter_tensors(small_gpt2()));
  const std::vector<float> params = numbered_params(layout);
  save_model(directory_, small_gpt2(), layout, params, {}, {});
  const SafetensorsReader reader(directory_ / "model.safetensors");
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  const std::string name = "transformer.h.1.mlp.c_fc.weight";
  EXPECT_EQ(reader.shape(name), (std::vector<std::int64_t>{8, 12}));
  EXPECT_EQ(reader.shape("transformer.wte.weight"), (std::vector<std::int64_t>{11, 8}));
  std::vector<float> stored(96);
  reader.read(name, stored);
  const std::size_t offset = layout.find(name).offset;
  EXPECT_EQ(stored[5 * 12 + 7], params[offset + 7 * 8 + 5]);
}

TEST_F(Checkpoint, ReadsWhatPublishedGpt2FilesHave) {
  const ModelOptions options = small_gpt2();
  const diloco::Layout layout(parameter_tensors(options));
  const std::vector<float> params = numbered_params(layout);
  save_model(directory_, options, layout, params, {}, {});
  const SafetensorsReader reader(directory_ / "model.safetensors");
  // Names without "transformer.", a table of the causal mask, and the tied head once more.
  std::vector<std::vector<float>> values;
  std::vector<TensorView> tensors;
  for (const std::string& name : reader.names()) {
    values.emplace_back(diloco::TensorSpec{name, reader.shape(name)}.count());
    reader.read(name, values.back());
    tensors.push_back({name.substr(12), reader.shape(name), values.back()});
  }
  tensors.push_back({"h.0.attn.bias", {1, 1, 4, 4}, std::span(params).first(16)});
  tensors.push_back({"lm_head.weight", {11, 8}, std::span(params).first(88)});
  write_safetensors(directory_ / "published", tensors, {});
  fs::rename(directory_ / "published", directory_ / "model.safetensors");
  EXPECT_EQ(load_model(directory_).params, params);
}

TEST_F(Checkpoint, ReadsAModelOfSeveralFiles) {
  const std::size_t half = tensors_.size() / 2;
  write_safetensors(directory_ / "a.safetensors", std::span(tensors_).first(half), {});
  write_safetensors(directory_ / "b.safetensors", std::span(tensors_).subspan(half), {});
  fs::remove(directory_ / "model.safetensors");
  const auto index = [&](const std::string& file) {
    write_text(directory_ / "model.safetensors.index.json",
               R"({"weight_map": {"x": "a.safetensors", "y": )" + file + "}}");
  };
  index(R"("b.safetensors")");
  EXPECT_EQ(load_model(directory_).params, params_);
  for (const char* file : {R"("../b.safetensors")", "1", R"("b.bin")", R"("c.safetensors")"}) {
    index(file);
    expect_refusal(Errc::bad_checkpoint, {}, [&] { load_model(directory_); });
  }
  index(R"("b.safetensors", "z": {})");
  expect_refusal(Errc::bad_checkpoint, {"'z'"}, [&] { load_model(directory_); });
  write_text(directory_ / "model.safetensors.index.json", "{}");
  expect_refusal(Errc::bad_checkpoint, {"weight_map"}, [&] { load_model(directory_); });
}

TEST_F(Checkpoint, TakesTheFirstPositionsForAShorterContext) {
  ModelOptions options = small_gpt2();
  const diloco::Layout whole(parameter_tensors(options));
  const std::vector<float> params = numbered_params(whole);
  save_model(directory_, options, whole, params, {}, {});
  options.context = 5;
  const diloco::Layout layout(parameter_tensors(options));
  std::vector<float> read(layout.size());
  read_weights(directory_, options, layout, read);
  const auto at = layout.find("transformer.wpe.weight").offset;
  EXPECT_EQ(read[at + 5 * 8 - 1], params[whole.find("transformer.wpe.weight").offset + 39]);
  options.context = 17;
  const diloco::Layout longer(parameter_tensors(options));
  read.resize(longer.size());
  expect_refusal(Errc::bad_checkpoint, {"wpe", "(16, 8)", "(17, 8)"},
                 [&] { read_weights(directory_, options, longer, read); });
}

TEST_F(Checkpoint, KeepsTheOriginsOtherEntriesAndItsTokenizer) {
  const fs::path origin = temporary_.path() / "origin";
  fs::create_directories(origin);
  write_text(origin / "config.json",
             R"({"eos_token_id": 2, "hidden_size": 1, "rope_parameters": {"rope_theta": 7}})");
  write_text(origin / "tokenizer.json", "the tokenizer");
  write_text(origin / "README.md", "");
  save_model(directory_, options_, layout_, params_, {}, {origin, origin});
  const std::string config = read_text(directory_ / "config.json");
  EXPECT_THAT(config, testing::HasSubstr(R"("eos_token_id": 2)"));
  EXPECT_EQ(read_text(directory_ / "tokenizer.json"), "the tokenizer");
  EXPECT_FALSE(fs::exists(directory_ / "README.md"));
  EXPECT_EQ(load_model(directory_).options.rope_theta, options_.rope_theta);
  save_model(directory_, options_, layout_, params_, {}, {"", directory_});  // onto itself
  EXPECT_EQ(read_text(directory_ / "tokenizer.json"), "the tokenizer");
}

TEST_F(Checkpoint, NamesTheTokenThatEndsATextAsItsTokenizerDoes) {
  const fs::path tokenizer = temporary_.path() / "tokenizer";
  fs::create_directories(tokenizer);
  const auto saved = [&](const char* file = "config.json") {
    save_model(directory_, options_, layout_, params_, {}, {"", tokenizer});
    return nlohmann::json::parse(read_text(directory_ / file)).at("eos_token_id");
  };
  write_text(tokenizer / "tokenizer.json", R"({"added_tokens": [{"id": 9, "content": "[PAD]"}]})");
  EXPECT_TRUE(saved().is_null()) << "nobody says which";
  write_text(tokenizer / "tokenizer.json",
             R"({"added_tokens": [{"id": 9, "content": "</s>"}, {"id": 7, "content": "[END]"}]})");
  EXPECT_EQ(saved(), 9) << "called as such tokens are";
  write_text(tokenizer / "generation_config.json", R"({"temperature": 0.5})");
  EXPECT_EQ(saved("generation_config.json"), 9);
  write_text(tokenizer / "config.json", R"({"eos_token_id": [8, 9]})");
  EXPECT_EQ(saved(), 8);
  write_text(tokenizer / "tokenizer_config.json", R"({"eos_token": {"content": "[END]"}})");
  EXPECT_EQ(saved(), 7);
  write_text(tokenizer / "config.json", R"({"eos_token_id": 500})");
  write_text(tokenizer / "tokenizer_config.json", "{");
  EXPECT_TRUE(saved().is_null()) << "the model has no such token";
}

TEST_F(Checkpoint, RefusesImpossibleSettings) {
  refuses_config(R"("hidden_size": 8)", R"("hidden_size": 0)", {"hidden_size"});
  refuses_config(R"("hidden_size": 8)", R"("hidden_size": "8")", {"hidden_size"});
  refuses_config(R"("hidden_size": 8)", R"("hidden_size": 99999999999)", {"hidden_size"});
  refuses_config(R"("hidden_size": 8,)", "", {"hidden_size"});
  refuses_config(R"("vocab_size": 11)", R"("vocab_size": 2147483647)", {"impossible model"});
  refuses_config(R"("num_attention_heads": 4)", R"("num_attention_heads": 3)", {"head"});
  refuses_config(R"("head_dim": 2)", R"("head_dim": 4)", {"head_dim"});
  refuses_config(R"("llama")", R"("bert")", {"bert", "gpt2 and llama"});
  refuses_config(R"("silu")", R"("gelu")", {"hidden_act", "silu"});
  refuses_config(R"("attention_bias": false)", R"("attention_bias": true)", {"attention_bias"});
  refuses_config(R"("rope_scaling": null)", R"("rope_scaling": {"type": "yarn"})", {"yarn"});
  refuses_config(R"("rope_scaling": null)",
                 R"("rope_scaling": {"rope_type": "linear", "factor": 0.5})", {"factor"});
  refuses_config("{", "[", {"JSON"});
  fs::remove(directory_ / "config.json");
  expect_refusal(Errc::bad_checkpoint, {"config.json is missing"}, [&] { load_model(directory_); });
}

TEST_F(Checkpoint, RefusesTensorsOfAnotherModel) {
  const std::vector<TensorView> good = tensors_;
  tensors_[0].name = "other";
  refuses_tensors({"no tensor", good[0].name});
  tensors_ = good;
  std::swap(tensors_[0].shape[0], tensors_[0].shape[1]);
  refuses_tensors({good[0].name, "(8, 11)", "(11, 8)"});
  tensors_ = good;
  tensors_.push_back({"extra", {1}, std::span(params_).first(1)});
  refuses_tensors({"'extra'", "which its model does not have"});
  tensors_ = good;
  refuses_config(R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)", {});
}

}  // namespace
}  // namespace causeway::intra
