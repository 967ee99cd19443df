#include "intra/published/model_config.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <system_error>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/base/foreign_json.h"

namespace causeway::intra {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Family = ModelOptions::Family;
using Precision = ModelOptions::Precision;

// Ours, which transformers skips: the file's weights are fp32 whatever they were multiplied as.
constexpr const char* kPrecisionKey = "causeway_precision";

[[noreturn]] void refuse_config(const std::filesystem::path& file, const std::string& why) {
  throw std::system_error(Errc::bad_checkpoint, file.string() + " " + why);
}

template <typename Json>
Json parse(const std::filesystem::path& file) {
  const std::optional<std::string> text = diloco::read_file(file);
  if (!text) {
    refuse_config(file,
                  "is missing; a model is a directory with config.json and model.safetensors");
  }
  Json parsed = parse_foreign<Json>(*text);
  if (!parsed.is_object()) refuse_config(file, "is not a JSON object");
  return parsed;
}

// An object of the file, whose entries are read one by one; null counts as missing, as it does for
// transformers.
class Entries {
 public:
  Entries(std::filesystem::path file, json object)
      : file_(std::move(file)), object_(std::move(object)) {}

  bool has(const std::string& key) const {
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }

  std::int64_t integer(const std::string& key) const {
    // The model bounds each of its settings; this keeps what is made of them within 64 bits.
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    const json& value = at(key);
    if (!value.is_number_integer() || value < 1 || value > kMost) bad(key, "a positive integer");
    return value.get<std::int64_t>();
  }
  std::int64_t integer(const std::string& key, std::int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  double number(const std::string& key) const {
    if (!at(key).is_number()) bad(key, "a number");
    return at(key).get<double>();
  }
  double number(const std::string& key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  bool flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) bad(key, "true or false");
    return at(key).get<bool>();
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_string()) bad(key, "a text");
    return at(key).get<std::string>();
  }
  Entries object(const std::string& key) const {
    if (!has(key)) return {file_, json::object()};
    if (!at(key).is_object()) bad(key, "an object");
    return {file_, at(key)};
  }
  // Variants of the families that are not built in here.
  void must_be(const std::string& key, bool value) const {
    if (flag(key, value) == value) return;
    refuse_config(file_, "has " + key + " = " + (value ? "false" : "true") +
                             ", a variant that Causeway cannot train");
  }
  void must_be(const std::string& key, std::initializer_list<const char*> allowed) const {
    const std::string value = text(key, *allowed.begin());
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    refuse_config(file_, "has " + key + " = '" + value + "', which Causeway cannot train; '" +
                             *allowed.begin() + "' can");
  }
  [[noreturn]] void bad(const std::string& key, const std::string& allowed) const {
    refuse_config(file_,
                  "has an impossible " + key + ", " + at(key).dump() + "; it must be " + allowed);
  }

 private:
  const json& at(const std::string& key) const {
    if (!has(key)) refuse_config(file_, "does not say the model's " + key);
    return *object_.find(key);
  }

  std::filesystem::path file_;
  json object_;
};

ModelOptions read_gpt2(const Entries& config) {
  config.must_be("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.must_be("scale_attn_weights", true);
  config.must_be("scale_attn_by_inverse_layer_idx", false);
  config.must_be("add_cross_attention", false);
  config.must_be("tie_word_embeddings", true);
  ModelOptions options;
  options.family = Family::gpt2;
  options.vocabulary = config.integer("vocab_size");
  options.context = config.integer("n_positions");
  options.layers = config.integer("n_layer");
  options.width = config.integer("n_embd");
  options.heads = options.kv_heads = config.integer("n_head");
  options.hidden = config.integer("n_inner", 4 * options.width);
  options.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  return options;
}

RopeScaling read_scaling(const Entries& rope) {
  const std::string key = rope.has("rope_type") ? "rope_type" : "type";
  rope.must_be(key, {"default", "linear", "llama3"});
  const std::string type = rope.text(key, "default");
  RopeScaling scaling;
  if (type == "default") return scaling;
  scaling.factor = rope.number("factor");
  if (type == "linear") return scaling;
  scaling.low_frequency_factor = rope.number("low_freq_factor");
  scaling.high_frequency_factor = rope.number("high_freq_factor");
  scaling.original_context = rope.integer("original_max_position_embeddings");
  return scaling;
}

ModelOptions read_llama(const Entries& config) {
  config.must_be("hidden_act", {"silu"});
  config.must_be("attention_bias", false);
  config.must_be("mlp_bias", false);
  ModelOptions options;
  options.family = Family::llama;
  options.vocabulary = config.integer("vocab_size");
  options.context = config.integer("max_position_embeddings");
  options.layers = config.integer("num_hidden_layers");
  options.width = config.integer("hidden_size");
  options.heads = config.integer("num_attention_heads");
  options.kv_heads = config.integer("num_key_value_heads", options.heads);
  options.hidden = config.integer("intermediate_size");
  options.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  options.tied_head = config.flag("tie_word_embeddings", false);
  if (config.integer("head_dim", options.width / options.heads) != options.width / options.heads) {
    config.bad("head_dim", "hidden_size / num_attention_heads");
  }
  // Version 5 of transformers moved all that rotates into one object.
  const Entries rope = config.object(config.has("rope_parameters") ? "rope_parameters"  //
                                                                   : "rope_scaling");
  options.rope_theta = rope.number("rope_theta", config.number("rope_theta", 10'000.0));
  options.rope_scaling = read_scaling(rope);
  return options;
}

ordered_json scaling_entry(const RopeScaling& scaling) {
  if (scaling == RopeScaling{}) return nullptr;
  if (scaling.original_context == 0) return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_frequency_factor},
          {"high_freq_factor", scaling.high_frequency_factor},
          {"original_max_position_embeddings", scaling.original_context}};
}

ordered_json gpt2_entries(const ModelOptions& options) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", options.vocabulary},
          {"n_positions", options.context},
          {"n_layer", options.layers},
          {"n_embd", options.width},
          {"n_head", options.heads},
          {"n_inner", options.hidden},
          {"layer_norm_epsilon", options.norm_epsilon},
          {"activation_function", "gelu_new"},
          {"attn_pdrop", options.dropout},
          {"embd_pdrop", options.dropout},
          {"resid_pdrop", options.dropout},
          {"tie_word_embeddings", true}};
}

ordered_json llama_entries(const ModelOptions& options) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", options.vocabulary},
          {"max_position_embeddings", options.context},
          {"num_hidden_layers", options.layers},
          {"hidden_size", options.width},
          {"num_attention_heads", options.heads},
          {"num_key_value_heads", options.kv_heads},
          {"head_dim", options.width / options.heads},
          {"intermediate_size", options.hidden},
          {"rms_norm_eps", options.norm_epsilon},
          {"rope_theta", options.rope_theta},
          {"rope_scaling", scaling_entry(options.rope_scaling)},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", options.dropout},
          {"tie_word_embeddings", options.tied_head}};
}

}  // namespace

ModelOptions read_model_config(const std::filesystem::path& file) {
  const Entries config(file, parse<json>(file));
  const std::string type = config.text("model_type", "missing");
  if (type != "gpt2" && type != "llama") {
    refuse_config(file, "has model_type '" + type + "'; gpt2 and llama can be read");
  }
  ModelOptions options = type == "gpt2" ? read_gpt2(config) : read_llama(config);
  config.must_be(kPrecisionKey, {"fp32", "bf16"});
  if (config.text(kPrecisionKey, "fp32") == "bf16") options.precision = Precision::bf16;
  try {
    parameter_tensors(options);
  } catch (const std::system_error& error) {
    refuse_config(file, std::string("describes an impossible model: ") + error.what());
  }
  return options;
}

namespace {

void name_end(ordered_json& config, std::optional<std::int64_t> end) {
  ordered_json& named = config["eos_token_id"];
  if (named.is_null() && end) named = *end;
}

}  // namespace

std::string generation_config(const std::string& text, std::int64_t end) {
  auto config = parse_foreign<ordered_json>(text);
  if (!config.is_object()) return text;
  name_end(config, end);
  return config.dump(2) + "\n";
}

std::string model_config(const ModelOptions& options, const std::filesystem::path& origin,
                         std::optional<std::int64_t> end, StoredAs stored) {
  // transformers would fill in the tokens of the published models.
  ordered_json config = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  if (!origin.empty()) config = parse<ordered_json>(origin);
  for (const char* outdated : {"rope_parameters", "n_ctx", "torch_dtype", "_name_or_path"}) {
    config.erase(outdated);
  }
  const bool gpt2 = options.family == Family::gpt2;
  config.update(gpt2 ? gpt2_entries(options) : llama_entries(options));
  name_end(config, end);
  config["dtype"] = stored == StoredAs::fp32 ? "float32" : "bfloat16";
  config[kPrecisionKey] = options.precision == Precision::bf16 ? "bf16" : "fp32";
  return config.dump(2) + "\n";
}

}  // namespace causeway::intra
