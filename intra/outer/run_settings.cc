#include "intra/outer/run_settings.h"

#include <system_error>

#include <toml++/toml.h>

#include "intra/base/error.h"

namespace causeway::intra {
namespace {

[[noreturn]] void refuse_settings(const std::string& why) {
  throw std::system_error(Errc::bad_settings, "the coordinator's settings of the run: " + why);
}

class Settings {
 public:
  explicit Settings(const std::string& text) {
    try {
      table_ = toml::parse(text);
    } catch (const toml::parse_error& error) {
      refuse_settings(std::string(error.description()));
    }
  }

  template <typename T>
  void read(const std::string& key, T& out) const {
    const auto node = table_.at_path(key);
    if (!node) return;
    using Stored = std::conditional_t<
        std::is_same_v<T, float>, double,
        std::conditional_t<std::is_unsigned_v<T> && !std::is_same_v<T, bool>, std::int64_t, T>>;
    const auto value = node.value<Stored>();
    if (!value) refuse_settings(key + " has an impossible value");
    out = static_cast<T>(*value);
  }

  void read(const std::string& key, std::vector<std::string>& out) const {
    const auto node = table_.at_path(key);
    if (!node) return;
    const toml::array* list = node.as_array();
    if (list == nullptr) refuse_settings(key + " is not a list");
    out.clear();
    for (const toml::node& item : *list) {
      const auto text = item.value<std::string>();
      if (!text) refuse_settings(key + " is not a list of texts");
      out.push_back(*text);
    }
  }

 private:
  toml::table table_;
};

std::vector<TensorCodec> tensor_codecs(const std::vector<std::string>& texts) {
  std::vector<TensorCodec> codecs;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) refuse_settings("codec.tensors has " + text);
    codecs.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return codecs;
}

diloco::OuterOptions::Kind outer_kind(const std::string& name) {
  if (name == "nesterov") return diloco::OuterOptions::Kind::nesterov;
  if (name == "delayed_nesterov") return diloco::OuterOptions::Kind::delayed_nesterov;
  if (name == "sgd") return diloco::OuterOptions::Kind::sgd;
  refuse_settings("outer.optimizer is " + name);
}

diloco::OuterOptions::Mean outer_mean(const std::string& name) {
  if (name == "all") return diloco::OuterOptions::Mean::all;
  if (name == "senders") return diloco::OuterOptions::Mean::senders;
  refuse_settings("outer.mean is " + name);
}

diloco::OverlapOptions::Variant overlap_variant(const std::string& name) {
  using Variant = diloco::OverlapOptions::Variant;
  if (name == "synchronous") return Variant::synchronous;
  if (name == "streaming") return Variant::streaming;
  if (name == "delayed") return Variant::delayed;
  if (name == "eager") return Variant::eager;
  refuse_settings("sync.variant is " + name);
}

diloco::FragmentOrder fragment_order(const std::string& name) {
  if (name == "strided") return diloco::FragmentOrder::strided;
  if (name == "sequential") return diloco::FragmentOrder::sequential;
  refuse_settings("sync.fragment_order is " + name);
}

}  // namespace

RunSettings parse_run_settings(const std::string& text) {
  const Settings settings(text);
  RunSettings run;
  std::string optimizer = "nesterov", mean = "all";
  std::vector<std::string> tensors;
  settings.read("run.seed", run.seed);
  settings.read("train.steps", run.steps);
  settings.read("regions.name", run.regions);
  settings.read("codec.matrix", run.codec.matrix);
  settings.read("codec.vector", run.codec.vector);
  settings.read("codec.tensors", tensors);
  settings.read("codec.error_max", run.codec.error_max);
  settings.read("codec.step_up", run.codec.step_up);
  settings.read("codec.feedback", run.codec.feedback);
  settings.read("codec.force", run.codec.force);
  settings.read("codec.feedback_decay", run.codec.feedback_decay);
  settings.read("outer.optimizer", optimizer);
  settings.read("outer.lr", run.outer.lr);
  settings.read("outer.momentum", run.outer.momentum);
  settings.read("outer.delay", run.outer.delay);
  settings.read("outer.mean", mean);
  std::string variant = "synchronous", order = "strided";
  settings.read("sync.variant", variant);
  settings.read("sync.fragments", run.overlap.fragments);
  settings.read("sync.fragment_order", order);
  settings.read("sync.mixing", run.overlap.mixing);
  std::string k = "fixed";
  settings.read("sync.k", k);
  if (k == "auto") settings.read("sync.held_out_sequences", run.validation_samples);
  run.overlap.variant = overlap_variant(variant);
  run.overlap.order = fragment_order(order);
  run.codec.tensors = tensor_codecs(tensors);
  run.outer.kind = outer_kind(optimizer);
  run.outer.mean = outer_mean(mean);
  return run;
}

}  // namespace causeway::intra
